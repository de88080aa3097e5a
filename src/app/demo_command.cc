#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "app/command.h"
#include "app/demo_report.h"
#include "app/demo_run.h"
#include "app/message.h"
#include "base/units.h"

namespace shardfs::app {
namespace {

struct Arguments {
  DemoOptions options;
  std::string size = "512M";
  std::string json;
};

int demo(Arguments& arguments) {
  const auto size = base::parse_bytes(arguments.size);
  if (!size || *size < (1 << 20)) {
    print_error(size ? "--size: at least 1M" : "--size: " + size.error().message);
    return kExitUsage;
  }
  arguments.options.size_bytes = *size;
  const auto result = run_demo(arguments.options);
  if (!result) {
    print_error(result.error().message);
    return kExitFailed;
  }
  std::fputs(("\n" + demo_table(*result)).c_str(), stdout);
  if (arguments.json.empty()) return kExitOk;
  std::ofstream file(arguments.json);
  file << demo_json(*result);
  file.close();
  if (!file) {
    print_error("write " + arguments.json + " failed");
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace

void add_demo_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("demo", "Try it without any S3: an epoch cold, warm, and from a local copy");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("--size", arguments->size, "Bytes of the data set. Default: 512M")->type_name("SIZE");
  command->add_option("--shards", arguments->options.shards, "Shards that it is made of. Default: 8")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  command->add_option("--samples", arguments->options.samples, "Samples in all. Default: one for each 107 KB")
      ->type_name("N")
      ->check(CLI::Range(1, 100000000));
  command->add_option("--passthrough", arguments->options.passthrough, "As for mount. Default: auto")
      ->type_name("MODE")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  command->add_option("--json", arguments->json, "Write the figures to this file, too")->type_name("FILE");
  command->add_flag("--keep", arguments->options.keep, "Leave the temporary folder");
  command->footer(
      "Makes a data set in $TMPDIR, serves it from a store in this program that answers like one across a network (30 "
      "ms\n"
      "to the first byte, 90 MB/s a connection), mounts it and reads it with a WebDataset loader in two workers: once\n"
      "cold, once warm; then the same from the local folder. Without Python, torch and webdataset it reads plainly.\n"
      "It needs about three times the size in $TMPDIR.\n"
      "\n"
      "Example:\n"
      "  shardfs demo --size 1G --json demo.json");
  command->callback([arguments, &exit_code] { exit_code = demo(*arguments); });
}

}  // namespace shardfs::app
