#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "app/command.h"
#include "app/debug_bundle.h"
#include "app/message.h"

namespace shardfs::app {
namespace {

struct Arguments {
  std::string mountpoint;
  std::string output;
};

int bundle(const Arguments& arguments) {
  const auto folder = control::runtime_folder();
  if (!folder) {
    print_error(folder.error().message);
    return kExitFailed;
  }
  auto mounts = control::list_states(*folder);
  if (!arguments.mountpoint.empty()) {
    const auto wanted = control::canonical_mountpoint(arguments.mountpoint);
    std::erase_if(mounts, [&](const auto& mount) { return !wanted || mount.mountpoint != *wanted; });
    if (mounts.empty()) {
      print_error("no mount of this user on " + arguments.mountpoint);
      return kExitFailed;
    }
  }
  std::string output = arguments.output;
  if (output.empty()) {
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    output = fmt::format("shardfs-debug-{:%Y%m%d-%H%M%S}.tar.gz", fmt::gmtime(now));
  }
  if (auto written = write_debug_bundle(output, mounts); !written) {
    print_error(written.error().message);
    return kExitFailed;
  }
  fmt::print("{}\n", output);
  return kExitOk;
}

}  // namespace

void add_debug_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("debug", "For the search of a fault");
  command->require_subcommand(1);
  CLI::App* const inner =
      command->add_subcommand("bundle", "One archive of settings, statistics, logs and versions, without secrets");
  const auto arguments = std::make_shared<Arguments>();
  inner->add_option("DIR", arguments->mountpoint, "The mountpoint. Without it: all mounts of this user");
  inner->add_option("--output", arguments->output, "Where to write it. Default: shardfs-debug-TIME.tar.gz here")
      ->type_name("FILE");
  inner->footer(
      "Names of objects and buckets are in it (statistics, logs), keys and data are not. Look into it before you pass "
      "it on.\n"
      "\n"
      "Examples:\n"
      "  shardfs debug bundle\n"
      "  shardfs debug bundle /data --output /tmp/fault.tar.gz");
  inner->callback([arguments, &exit_code] { exit_code = bundle(*arguments); });
}

}  // namespace shardfs::app
