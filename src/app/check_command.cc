#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/check_machine.h"
#include "app/check_report.h"
#include "app/check_store.h"
#include "app/command.h"
#include "app/message.h"
#include "app/options.h"
#include "app/setting_flags.h"
#include "app/store_options.h"
#include "app/url.h"

namespace shardfs::app {
namespace {

struct Arguments {
  std::string source;
  bool json = false;
  SettingFlags flags;
};

/// As the trial mount gets them.
std::vector<std::string> mount_flags(const Arguments& arguments) {
  std::vector<std::string> out;
  if (!arguments.flags.config().empty()) out = {"--config", arguments.flags.config()};
  for (const auto& [name, value] : arguments.flags.given()) {
    if (name != "foreground" && name != "log-file") out.push_back(fmt::format("--{}={}", name, value));
  }
  return out;
}

int check(const Arguments& arguments) {
  auto options = resolve_options(default_sources(arguments.flags.given(), arguments.flags.config()));
  if (!options) {
    print_error(options.error().message);
    return kExitUsage;
  }
  const bool mapped = arguments.source.empty() && !options->mapped_source.empty();
  const auto source = parse_url(mapped ? options->mapped_source : arguments.source);
  if (!source) {
    print_error(source.error().message);
    return kExitUsage;
  }
  prepare_environment();
  // Answers are what is shown; warnings of the rooms would come between them.
  if (auto quiet = base::set_up_log(base::LogLevel::kError, {}); !quiet) return kExitFailed;
  std::vector<CheckRow> rows;
  const auto report = [&](CheckRow row) {
    if (!arguments.json) {
      std::fputs(row_text(row).c_str(), stdout);
      std::fflush(stdout);
    }
    rows.push_back(std::move(row));
  };
  CheckStore store(*source, store_options(*source, *options), report);
  const bool reachable = store.run();
  auto fuse = check_fuse();
  const bool may_mount = fuse.front().verdict == CheckRow::Verdict::kOk;
  for (auto& row : fuse) report(std::move(row));
  if (may_mount && reachable) {
    for (auto& row : check_mount(source->text(), mount_flags(arguments))) report(std::move(row));
  } else {
    report({CheckRow::Verdict::kSkipped, "mount", reachable ? "FUSE is not there" : "the store can't be listed", {}});
  }
  for (auto& row : check_cache(*options)) report(std::move(row));
  if (arguments.json) std::puts(report_json(source->text(), rows).c_str());
  return all_work(rows) ? kExitOk : kExitFailed;
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("check", "Try a bucket or prefix, this machine and the cache's disk; say what to do");
  command->get_formatter()->column_width(34);
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("SOURCE", arguments->source,
                      "s3://BUCKET or s3://BUCKET/PREFIX. May be left out where the site's variables name it");
  command->add_flag("--json", arguments->json, "The same as one JSON object");
  arguments->flags.add_to(*command);
  command->footer(
      "Takes the options of mount, and tries what it would use: endpoint, DNS, TLS, clock, region, credentials, list, "
      "read,\n"
      "ranged read, If-Match, throughput with 1, 8 and 32 connections (three seconds each), FUSE and passthrough (by a "
      "mount\n"
      "on a folder of its own), space and speed of the cache's disk. The exit code is 0 if nothing failed.\n"
      "\n"
      "Examples:\n"
      "  shardfs check s3://bucket/imagenet\n"
      "  shardfs check s3://bucket/imagenet --endpoint-url http://10.0.0.5:9000 --path-style --json");
  command->callback([arguments, &exit_code] { exit_code = check(*arguments); });
}

}  // namespace shardfs::app
