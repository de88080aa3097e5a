#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "app/command.h"
#include "app/message.h"
#include "base/units.h"
#include "control/socket_path.h"
#include "control/stats.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

struct Arguments {
  std::string mountpoint;
  bool json = false;
  bool watch = false;
  std::string interval = "1s";
};

/// One snapshot after the other until the mount ends. JSON: one line each.
int watch(const std::string& target, bool as_json, std::chrono::milliseconds interval) {
  for (bool first = true;; first = false) {
    auto client = ControlClient::connect(target);
    const auto answer = client ? client->stats() : tl::unexpected(client.error());
    if (!answer) {
      if (!first && answer.error().kind == ControlError::Kind::kNoMount) return kExitOk;
      print_error(answer.error().message);
      return kExitFailed;
    }
    const auto text = as_json ? base::Result<std::string>(*answer + "\n") : control::stats_text(*answer);
    if (!text) {
      print_error(text.error().message);
      return kExitFailed;
    }
    // Whoever reads it may have gone.
    if (std::fputs(text->c_str(), stdout) < 0 || std::fflush(stdout) != 0) return kExitOk;
    std::this_thread::sleep_for(interval);
  }
}

int show(const std::string& target, bool as_json) {
  auto client = ControlClient::connect(target);
  if (!client) {
    print_error(client.error().message);
    return kExitFailed;
  }
  const auto answer = client->stats();
  if (!answer) {
    print_error(fmt::format("{}: {}", target, answer.error().message));
    return kExitFailed;
  }
  if (as_json) {
    std::puts(nlohmann::json::parse(*answer).dump(2).c_str());
    return kExitOk;
  }
  const auto text = control::stats_text(*answer);
  if (!text) {
    print_error(text.error().message);
    return kExitFailed;
  }
  std::fputs(text->c_str(), stdout);
  return kExitOk;
}

void list(const std::vector<control::MountState>& mounts, bool as_json) {
  auto all = nlohmann::json::array();
  for (const auto& mount : mounts) {
    if (as_json) {
      all.push_back({{"mountpoint", mount.mountpoint}, {"source", mount.source}, {"pid", mount.process_id}});
    } else {
      fmt::print("{}  {}  (process {})\n", mount.mountpoint, mount.source, mount.process_id);
    }
  }
  if (as_json) {
    const nlohmann::json result = {{"mounts", std::move(all)}};
    std::puts(result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
}

int show(const Arguments& arguments, const std::string& target) {
  if (!arguments.watch) return show(target, arguments.json);
  const auto interval = base::parse_duration(arguments.interval);
  if (!interval || interval->count() < 100 || *interval > std::chrono::hours(1)) {
    print_error("--interval: a time from 100ms to 1h");
    return kExitUsage;
  }
  return watch(target, arguments.json, *interval);
}

int stats(const Arguments& arguments) {
  if (!arguments.mountpoint.empty()) return show(arguments, arguments.mountpoint);
  const auto folder = control::runtime_folder();
  if (!folder) {
    print_error(folder.error().message);
    return kExitFailed;
  }
  const auto mounts = control::list_states(*folder);
  if (mounts.size() == 1) return show(arguments, mounts.front().mountpoint);
  if (mounts.empty() && !arguments.json) {
    print_error("no mount of this user; shardfs mount --help");
    return kExitFailed;
  }
  list(mounts, arguments.json);
  if (!arguments.json) print_note("several mounts: name one, as in shardfs stats " + mounts.front().mountpoint);
  return mounts.empty() ? kExitFailed : kExitOk;
}

}  // namespace

void add_stats_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("stats", "Show what a mount does: hits, bytes, requests, latencies");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->mountpoint, "The mountpoint. Without it: the only mount, or a list of all");
  command->add_flag("--json", arguments->json, "All figures as one JSON object; docs/metrics.md explains the fields");
  command->add_flag("--watch", arguments->watch,
                    "One snapshot after the other, until the mount ends; as JSON: one a line");
  command->add_option("--interval", arguments->interval, "Between two of them. Default: 1s")->type_name("TIME");
  command->footer(
      "Only for mounts of the same user.\n"
      "\n"
      "Examples:\n"
      "  shardfs stats\n"
      "  shardfs stats /data --json | jq .hit_ratio\n"
      "  shardfs stats /data --watch --json --interval 10s >>job.jsonl");
  command->callback([arguments, &exit_code] { exit_code = stats(*arguments); });
}

}  // namespace shardfs::app
