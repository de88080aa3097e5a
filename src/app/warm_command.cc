#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "app/cache_target.h"
#include "app/command.h"
#include "app/message.h"
#include "base/units.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::Result;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> paths;
  bool check = false;
  bool json = false;
};

// Source: as many as a request takes; and so many bytes keep all connections busy at 10 GB/s between two questions.
constexpr size_t kFilesAtOnce = 1024;
constexpr uint64_t kBytesAtOnce = 1 << 30;
constexpr size_t kFilesShown = 10;
constexpr std::chrono::milliseconds kBetweenQuestions{100};
// Of the limit, for maps and names. Source: docs/cache-format.md, cost of a file.
constexpr uint64_t kOverheadBytes = 4 << 20;
constexpr uint64_t kOverheadOfFile = 4096 + 128;

struct File {
  std::string path;
  uint64_t size_bytes = 0;
  uint64_t resident_bytes = 0;
  std::string error;
};

struct Warming {
  std::vector<File> missing;  // in the order of the command line
  std::vector<File> refused;  // did not fit
  std::vector<File> failed;
  size_t files = 0;
  size_t complete_files = 0;
  uint64_t bytes = 0;
  uint64_t resident_bytes = 0;  // now
  uint64_t began_bytes = 0;     // resident at the beginning
};

Result<std::unique_ptr<CacheTarget>> open_target(const Arguments& arguments, std::vector<std::string>& files) {
  std::string mountpoint;
  for (const auto& path : arguments.paths) {
    const auto place = find_mounted(path);
    if (!place) return tl::unexpected(place.error());
    if (!mountpoint.empty() && place->mountpoint != mountpoint) {
      return base::fail(Code::kInvalid, "the paths are in several mounts: one mount at a time");
    }
    mountpoint = place->mountpoint;
    auto found = files_below(*place);
    if (!found) return tl::unexpected(found.error());
    std::move(found->begin(), found->end(), std::back_inserter(files));
  }
  return CacheTarget::of_mount(mountpoint);
}

// What is there of them, and what would pass the limit.
Result<void> look(CacheTarget& target, const std::vector<std::string>& files, Warming& warming) {
  const auto limit = target.ask("cache_limit", json::object());
  if (!limit) return tl::unexpected(limit.error());
  const uint64_t taken = limit->value("pinned_bytes", uint64_t{0}) + kOverheadBytes;
  const uint64_t limit_bytes = limit->value("limit_bytes", uint64_t{0});
  uint64_t left = limit_bytes - std::min(limit_bytes, taken);
  warming.files = files.size();
  for (size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    const auto from = files.begin() + static_cast<ptrdiff_t>(begin);
    const auto to = files.begin() + static_cast<ptrdiff_t>(std::min(files.size(), begin + kFilesAtOnce));
    auto answer = target.ask("cache_stat", {{"files", std::vector<std::string>(from, to)}});
    if (!answer) return tl::unexpected(answer.error());
    for (const auto& entry : (*answer)["entries"]) {
      File file{entry.value("given", ""),
                entry.value("size_bytes", uint64_t{0}),
                entry.value("resident_bytes", uint64_t{0}),
                {}};
      if (entry.contains("error")) {
        file.error = entry["error"].value("message", "");
        warming.failed.push_back(std::move(file));
        continue;
      }
      warming.bytes += file.size_bytes;
      warming.resident_bytes += file.resident_bytes;
      // A pinned file has its place already.
      const uint64_t cost = entry.value("pinned", false) ? 0 : file.size_bytes + kOverheadOfFile;
      if (entry.value("complete", false) || file.size_bytes == 0) {
        ++warming.complete_files;
      } else if (cost > left) {
        file.error = "more than the cache's limit leaves";
        warming.refused.push_back(std::move(file));
        continue;
      } else {
        warming.missing.push_back(std::move(file));
      }
      left -= std::min(left, cost);
    }
  }
  warming.began_bytes = warming.resident_bytes;
  return {};
}

// One line that is written over, for a person who waits.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void show(const Warming& warming, double seconds) {
    if (!wanted_) return;
    uint64_t out_of_reach = 0;
    for (const auto* list : {&warming.refused, &warming.failed}) {
      for (const auto& file : *list) out_of_reach += file.size_bytes - std::min(file.size_bytes, file.resident_bytes);
    }
    const uint64_t goal = warming.bytes - std::min(warming.bytes, out_of_reach);
    const double rate = seconds > 0 ? static_cast<double>(warming.resident_bytes - warming.began_bytes) / seconds : 0;
    const auto left = static_cast<double>(goal - std::min(goal, warming.resident_bytes));
    const std::string time = rate > 0 ? fmt::format("{:.0f} s left", left / rate) : std::string("-");
    const double percent =
        goal > 0 ? 100.0 * static_cast<double>(warming.resident_bytes) / static_cast<double>(goal) : 100;
    const auto bar = static_cast<size_t>(std::min(percent, 100.0) / 5);
    fmt::print(stderr, "\r\033[K[{:<20}] {:.0f} %  {} of {}  {:.0f} MB/s  {}", std::string(bar, '='), percent,
               base::format_bytes(warming.resident_bytes), base::format_bytes(goal), rate / 1e6, time);
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  const bool wanted_;
  bool shown_ = false;
};

Result<void> fetch(CacheTarget& target, Warming& warming, bool with_progress) {
  ProgressLine progress(with_progress);
  const auto began = Clock::now();
  std::deque<File> waiting(warming.missing.begin(), warming.missing.end());
  std::vector<File> under_way;
  std::vector<File> again;  // refused while others were on their way: there may be room when these are settled
  bool second_round = false;
  warming.missing.clear();
  uint64_t settled_bytes = warming.resident_bytes;  // of files that are not asked for now
  for (const auto& file : waiting) settled_bytes -= file.resident_bytes;
  uint64_t waiting_bytes = warming.resident_bytes - settled_bytes;
  while (!waiting.empty() || !under_way.empty() || !again.empty()) {
    if (waiting.empty() && under_way.empty()) {
      for (const auto& file : again) {
        settled_bytes -= file.resident_bytes;
        waiting_bytes += file.resident_bytes;
      }
      waiting.assign(again.begin(), again.end());
      again.clear();
      second_round = true;
    }
    uint64_t bytes = 0;
    for (const auto& file : under_way) bytes += file.size_bytes;
    while (!waiting.empty() && under_way.size() < kFilesAtOnce && (bytes == 0 || bytes < kBytesAtOnce)) {
      bytes += waiting.front().size_bytes;
      waiting_bytes -= waiting.front().resident_bytes;
      under_way.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    std::vector<std::string> paths;
    for (const auto& file : under_way) paths.push_back(file.path);
    auto answer = target.ask("warm", {{"files", paths}});
    if (!answer) return tl::unexpected(answer.error());
    std::vector<File> still;
    uint64_t arrived = 0;
    size_t at = 0;
    for (const auto& state : (*answer)["files"]) {
      File file = std::move(under_way.at(at++));
      file.resident_bytes = state.value("resident_bytes", uint64_t{0});
      file.error = state.value("error", "");
      const std::string name = state.value("state", "");
      if (name == "fetching") {
        arrived += file.resident_bytes;
        still.push_back(std::move(file));
        continue;
      }
      settled_bytes += file.resident_bytes;
      if (name == "complete") {
        ++warming.complete_files;
      } else if (name == "refused") {
        (second_round ? warming.refused : again).push_back(std::move(file));
      } else {
        warming.failed.push_back(std::move(file));
      }
    }
    const bool moved = still.size() < under_way.size();
    under_way = std::move(still);
    warming.resident_bytes = settled_bytes + waiting_bytes + arrived;
    progress.show(warming, std::chrono::duration<double>(Clock::now() - began).count());
    if (!under_way.empty() && !moved) std::this_thread::sleep_for(kBetweenQuestions);
  }
  return {};
}

json list_of(const std::vector<File>& files) {
  json list = json::array();
  for (const auto& file : files) {
    list.push_back({{"file", file.path},
                    {"size_bytes", file.size_bytes},
                    {"resident_bytes", file.resident_bytes},
                    {"error", file.error}});
  }
  return list;
}

void show_some(const std::vector<File>& files, const char* what) {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size_bytes;
  if (files.empty()) return;
  print_line(fmt::format("{} files ({}) {}:", files.size(), base::format_bytes(bytes), what));
  for (size_t i = 0; i < std::min(files.size(), kFilesShown); ++i) {
    print_line(fmt::format("  {}: {}", files[i].path, files[i].error));
  }
  if (files.size() > kFilesShown) print_line(fmt::format("  and {} more", files.size() - kFilesShown));
}

int warm(const Arguments& arguments) {
  std::vector<std::string> files;
  const auto target = open_target(arguments, files);
  const auto failed = [](const base::Error& error) {
    print_error(error.message);
    return error.code == Code::kInvalid ? kExitUsage : kExitFailed;
  };
  if (!target) return failed(target.error());
  Warming warming;
  if (auto looked = look(**target, files, warming); !looked) return failed(looked.error());
  const auto began = Clock::now();
  if (!arguments.check) {
    if (auto fetched = fetch(**target, warming, !arguments.json); !fetched) return failed(fetched.error());
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const uint64_t fetched_bytes = warming.resident_bytes - std::min(warming.resident_bytes, warming.began_bytes);
  const bool all = warming.complete_files == warming.files;
  if (arguments.json) {
    const json result = {{"files", warming.files},
                         {"bytes", warming.bytes},
                         {"complete_files", warming.complete_files},
                         {"resident_bytes", warming.resident_bytes},
                         {"fetched_bytes", fetched_bytes},
                         {"seconds", seconds},
                         {"missing", list_of(warming.missing)},
                         {"did_not_fit", list_of(warming.refused)},
                         {"failed", list_of(warming.failed)}};
    std::puts(result.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    return all ? kExitOk : kExitFailed;
  }
  fmt::print("{} of {} files are in the cache, {} of {}\n", warming.complete_files, warming.files,
             base::format_bytes(warming.resident_bytes), base::format_bytes(warming.bytes));
  if (!arguments.check && fetched_bytes > 0) {
    fmt::print("fetched {} in {:.1f} s, {:.0f} MB/s\n", base::format_bytes(fetched_bytes), seconds,
               static_cast<double>(fetched_bytes) / 1e6 / std::max(seconds, 1e-3));
  }
  if (arguments.check && !warming.missing.empty()) {
    uint64_t missing = 0;
    for (const auto& file : warming.missing) missing += file.size_bytes - file.resident_bytes;
    fmt::print("{} files are to be fetched, {}\n", warming.missing.size(), base::format_bytes(missing));
  }
  std::fflush(stdout);
  show_some(warming.refused, arguments.check ? "do not fit" : "did not fit");
  show_some(warming.failed, "failed");
  return all ? kExitOk : kExitFailed;
}

}  // namespace

void add_warm_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("warm", "Fetch files into the cache before a job reads them");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("PATH", arguments->paths, "Files or folders in a mount")->required();
  command->add_flag("--check", arguments->check,
                    "Fetch nothing; say what is there, what is missing, what does not fit");
  command->add_flag("--json", arguments->json, "The result as one JSON object; docs/cache.md explains the fields");
  command->footer(
      "What is in the cache already is not fetched again: a warming that was stopped goes on where it was. Readers go\n"
      "first. The exit code is 0 if all of it is in the cache at the end.\n"
      "\n"
      "Examples:\n"
      "  shardfs warm /data/train\n"
      "  shardfs warm /data/train /data/val --check");
  command->callback([arguments, &exit_code] { exit_code = warm(*arguments); });
}

}  // namespace shardfs::app
