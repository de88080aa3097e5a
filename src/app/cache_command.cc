#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

struct Arguments {
  std::vector<std::string> words;  // paths, or a mountpoint and a size
  std::string folder;
  bool json = false;
  bool pinned_too = false;
};

// Files that one request names. Source: the handler takes 1,024; an answer in some 10 ms.
constexpr size_t kFilesAtOnce = 256;

int failed(const base::Error& error) {
  print_error(error.message);
  return error.code == Code::kInvalid ? kExitUsage : kExitFailed;
}

void show_json(const json& value) { std::puts(value.dump(2, ' ', false, json::error_handler_t::replace).c_str()); }

std::string bytes(const json& entry, const char* field) { return base::format_bytes(entry.value(field, uint64_t{0})); }

Result<std::unique_ptr<CacheTarget>> target_of(const Arguments& arguments, const std::string& mountpoint) {
  return arguments.folder.empty() ? CacheTarget::of_mount(mountpoint) : CacheTarget::of_folder(arguments.folder);
}

// "complete, pinned"
std::string state_of(const json& entry) {
  std::string state = entry.value("complete", false)                   ? "complete"
                      : entry.value("resident_bytes", uint64_t{0}) > 0 ? "partial"
                                                                       : "empty";
  if (entry.value("complete", false) && !entry.value("verified", false)) state = "unverified";
  if (entry.value("pinned", false)) state += ", pinned";
  if (entry.value("open", false)) state += ", open";
  return state;
}

void show_entry(const json& entry) {
  const auto used = static_cast<std::time_t>(entry.value("last_use", 0.0));
  fmt::print("{:>10} of {:>10}  {:<24} {:%Y-%m-%d %H:%M}  s3://{}/{}\n", bytes(entry, "resident_bytes"),
             bytes(entry, "size_bytes"), state_of(entry), fmt::localtime(used), entry.value("bucket", ""),
             entry.value("key", ""));
}

int list(const Arguments& arguments) {
  const auto target = target_of(arguments, arguments.words.empty() ? "" : arguments.words.front());
  if (!target) return failed(target.error());
  json all = json::array();
  uint64_t files = 0, cost_bytes = 0;
  std::string after;
  do {
    auto page = (*target)->ask("cache_list", {{"after", after}});
    if (!page) return failed(page.error());
    for (auto& entry : (*page)["entries"]) {
      ++files;
      cost_bytes += entry.value("cost_bytes", uint64_t{0});
      if (arguments.json) {
        all.push_back(std::move(entry));
      } else {
        show_entry(entry);
      }
    }
    after = page->value("next", "");
  } while (!after.empty());
  if (arguments.json) {
    show_json({{"entries", std::move(all)}, {"files", files}, {"cost_bytes", cost_bytes}});
  } else {
    fmt::print("{} files, {}\n", files, base::format_bytes(cost_bytes));
  }
  return kExitOk;
}

// What the words on the command line stand for.
struct Wanted {
  std::string mountpoint;  // empty: none is named
  std::vector<std::string> files;
  std::vector<std::string> names;  // s3://BUCKET/KEY or NAMESPACE/HASH
};

bool is_name_in_cache(const std::string& word) {
  return word.starts_with("s3://") ||
         (word.size() > 33 && word.find_first_not_of("0123456789abcdef", word.size() - 32) == std::string::npos &&
          word[word.size() - 33] == '/' && word.find('/') == word.size() - 33);
}

Result<Wanted> wanted_of(const Arguments& arguments) {
  Wanted wanted;
  for (const auto& word : arguments.words) {
    if (!arguments.folder.empty() || is_name_in_cache(word)) {
      wanted.names.push_back(word);
      continue;
    }
    const auto place = find_mounted(word);
    if (!place) return tl::unexpected(place.error());
    if (!wanted.mountpoint.empty() && wanted.mountpoint != place->mountpoint) {
      return base::fail(Code::kInvalid, "the paths are in several mounts: one mount at a time");
    }
    wanted.mountpoint = place->mountpoint;
    auto files = files_below(*place);
    if (!files) return tl::unexpected(files.error());
    std::move(files->begin(), files->end(), std::back_inserter(wanted.files));
  }
  return wanted;
}

// Asks for all of them in several requests; what came back in one list.
Result<json> ask_for_all(CacheTarget& target, const std::string& command, const Wanted& wanted) {
  json entries = json::array();
  const auto ask = [&](const char* field, const std::vector<std::string>& list) -> std::optional<base::Error> {
    for (size_t begin = 0; begin < list.size(); begin += kFilesAtOnce) {
      const auto from = list.begin() + static_cast<ptrdiff_t>(begin);
      const auto to = list.begin() + static_cast<ptrdiff_t>(std::min(list.size(), begin + kFilesAtOnce));
      auto answer = target.ask(command, {{field, std::vector<std::string>(from, to)}});
      if (!answer) return std::move(answer.error());
      for (auto& entry : (*answer)["entries"]) entries.push_back(std::move(entry));
    }
    return std::nullopt;
  };
  if (auto error = ask("files", wanted.files)) return tl::unexpected(std::move(*error));
  if (auto error = ask("names", wanted.names)) return tl::unexpected(std::move(*error));
  return entries;
}

// True if that is what was asked for.
bool show_result(const json& entry, bool quiet) {
  const std::string result = entry.value("result", "");
  const bool fine = result == "pinned" || result == "unpinned" || result == "evicted" || result == "not_pinned" ||
                    result == "not_cached";
  if (quiet) return fine;
  const std::string given = entry.value("given", "");
  if (entry.contains("error")) {
    print_error(given + ": " + entry["error"].value("message", ""));
  } else if (result == "in_use") {
    print_error(given + ": in use, not evicted");
  } else {
    std::string more;
    if (result == "pinned" && !entry.value("complete", false)) {
      more = fmt::format(" ({} of {} are there; shardfs warm fetches the rest)", bytes(entry, "resident_bytes"),
                         bytes(entry, "size_bytes"));
    }
    std::string what = result;
    std::replace(what.begin(), what.end(), '_', ' ');
    fmt::print("{}: {}{}\n", given, what, more);
  }
  return fine;
}

// stat, pin, unpin and evict.
int for_files(const Arguments& arguments, const std::string& command) {
  const auto wanted = wanted_of(arguments);
  if (!wanted) return failed(wanted.error());
  const auto target = target_of(arguments, wanted->mountpoint);
  if (!target) return failed(target.error());
  const auto entries = ask_for_all(**target, command, *wanted);
  if (!entries) return failed(entries.error());
  bool all = true;
  for (const auto& entry : *entries) {
    if (command != "cache_stat") {
      // Of an eviction "pinned" is a refusal.
      const bool refused = command == "cache_evict" && entry.value("result", "") == "pinned";
      if (refused && !arguments.json) print_error(entry.value("given", "") + ": pinned, not evicted");
      all = (refused ? false : show_result(entry, arguments.json)) && all;
      continue;
    }
    all = all && !entry.contains("error");
    if (arguments.json) continue;
    if (entry.value("cached", false)) {
      show_entry(entry);
    } else if (entry.contains("error")) {
      print_error(entry.value("given", "") + ": " + entry["error"].value("message", ""));
    } else {
      fmt::print("{:>10} of {:>10}  {:<24} {:16}  {}\n", "0 B", bytes(entry, "size_bytes"), "not in the cache", "",
                 entry.value("given", ""));
    }
  }
  if (arguments.json) show_json({{"entries", *entries}});
  return all ? kExitOk : kExitFailed;
}

int clear(const Arguments& arguments) {
  const auto target = target_of(arguments, arguments.words.empty() ? "" : arguments.words.front());
  if (!target) return failed(target.error());
  json sum = {{"evicted", 0}, {"evicted_bytes", 0}, {"pinned", 0}, {"in_use", 0}, {"failed", 0}};
  std::string after;
  do {
    const auto page = (*target)->ask("cache_clear", {{"after", after}, {"pinned", arguments.pinned_too}});
    if (!page) return failed(page.error());
    for (auto& [field, value] : sum.items()) value = value.get<uint64_t>() + page->value(field, uint64_t{0});
    after = page->value("next", "");
  } while (!after.empty());
  if (arguments.json) {
    show_json(sum);
  } else {
    fmt::print("{} files ({}) evicted; {} pinned and {} in use stay\n", sum["evicted"].get<uint64_t>(),
               bytes(sum, "evicted_bytes"), sum["pinned"].get<uint64_t>(), sum["in_use"].get<uint64_t>());
  }
  return sum["failed"] == 0 ? kExitOk : kExitFailed;
}

int verify(const Arguments& arguments) {
  const auto target = target_of(arguments, arguments.words.empty() ? "" : arguments.words.front());
  if (!target) return failed(target.error());
  json sum = {{"files", 0}, {"blocks", 0}, {"bytes", 0}};
  json bad = json::array();
  const bool shown = !arguments.json && ::isatty(STDERR_FILENO) != 0;
  std::string after;
  do {
    auto page = (*target)->ask("cache_verify", {{"after", after}});
    if (!page) return failed(page.error());
    for (auto& [field, value] : sum.items()) value = value.get<uint64_t>() + page->value(field, uint64_t{0});
    for (auto& block : (*page)["bad"]) bad.push_back(std::move(block));
    if (shown) fmt::print(stderr, "\r{} files, {} read", sum["files"].get<uint64_t>(), bytes(sum, "bytes"));
    after = page->value("next", "");
  } while (!after.empty());
  if (shown) fmt::print(stderr, "\r\033[K");
  sum["bad"] = bad;
  if (arguments.json) {
    show_json(sum);
    return bad.empty() ? kExitOk : kExitFailed;
  }
  for (const auto& block : bad) {
    print_error(fmt::format("s3://{}/{}: block {} was damaged and is dropped; it is fetched again when it is read",
                            block.value("bucket", ""), block.value("key", ""), block.value("block", 0)));
  }
  fmt::print("{} blocks of {} files ({}) read, {} bad\n", sum["blocks"].get<uint64_t>(), sum["files"].get<uint64_t>(),
             bytes(sum, "bytes"), bad.size());
  return bad.empty() ? kExitOk : kExitFailed;
}

int limit(const Arguments& arguments) {
  std::string mountpoint, size;
  for (const auto& word : arguments.words) (base::parse_size_or_percent(word) ? size : mountpoint) = word;
  if (arguments.words.size() == 2 && (mountpoint.empty() || size.empty())) {
    print_error("limit: give a mountpoint and a size, such as /data 500G");
    return kExitUsage;
  }
  const auto target = target_of(arguments, mountpoint);
  if (!target) return failed(target.error());
  const auto now = (*target)->ask("cache_limit", size.empty() ? json::object() : json{{"size", size}});
  if (!now) return failed(now.error());
  if (arguments.json) {
    show_json(*now);
    return kExitOk;
  }
  const bool of_folder = now->value("of_folder", false);
  fmt::print("{} of {} used{}, {} pinned\n", bytes(*now, "used_bytes"),
             arguments.folder.empty() || of_folder ? bytes(*now, "limit_bytes") : std::string("the mounts' limits"),
             of_folder ? " (a limit for all mounts of the folder)" : "", bytes(*now, "pinned_bytes"));
  if (now->value("used_bytes", uint64_t{0}) > now->value("limit_bytes", uint64_t{0})) {
    print_note("what is in use leaves when it is not used any more");
  }
  return kExitOk;
}

using Run = std::function<int(const Arguments&)>;

CLI::App* add(CLI::App& parent, int& exit_code, const std::string& name, const std::string& help, const Run& run,
              const std::shared_ptr<Arguments>& arguments) {
  CLI::App* const command = parent.add_subcommand(name, help);
  command->add_option("--cache-dir", arguments->folder, "The cache folder, instead of a mount")->type_name("DIR");
  command->add_flag("--json", arguments->json, "As one JSON object; docs/cache.md explains the fields");
  command->callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
  return command;
}

void add_for_files(CLI::App& parent, int& exit_code, const std::string& name, const std::string& help) {
  const auto arguments = std::make_shared<Arguments>();
  add(
      parent, exit_code, name, help, [name](const Arguments& a) { return for_files(a, "cache_" + name); }, arguments)
      ->add_option("PATH", arguments->words,
                   "Files or folders in a mount; or s3://BUCKET/KEY (with a slash at the end: all below), or a name "
                   "from ls")
      ->required();
}

}  // namespace

void add_cache_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("cache", "Look at a cache folder, pin, evict, verify, clear, set its limit");
  command->require_subcommand(1);
  const auto with_mount = [&](const std::string& name, const std::string& help, const Run& run) {
    const auto arguments = std::make_shared<Arguments>();
    CLI::App* const added = add(*command, exit_code, name, help, run, arguments);
    added->add_option("DIR", arguments->words, "The mountpoint. Without it: the only mount")->expected(0, 1);
    return std::pair(added, arguments);
  };
  with_mount("ls", "List all files in the cache folder, of all mounts", list);
  add_for_files(*command, exit_code, "stat", "Show what is cached of files");
  add_for_files(*command, exit_code, "pin", "Keep files from being evicted, also over remounts");
  add_for_files(*command, exit_code, "unpin", "Let pinned files be evicted again");
  add_for_files(*command, exit_code, "evict", "Remove files from the cache that nobody uses");
  with_mount("verify", "Read all that is cached from the disk and compare checksums; drop what is damaged", verify);
  const auto [clear_command, clear_arguments] =
      with_mount("clear", "Evict everything that is neither in use nor pinned", clear);
  clear_command->add_flag("--pinned", clear_arguments->pinned_too, "What is pinned, too");
  const auto arguments = std::make_shared<Arguments>();
  add(*command, exit_code, "limit", "Show the limit, or set it for all mounts of the folder until the last one ends",
      limit, arguments)
      ->add_option("[DIR] [SIZE]", arguments->words, "The mountpoint; the new limit: 500G, 80%")
      ->expected(0, 2);
  command->footer(
      "With a mount, or by --cache-dir without one. docs/cache.md tells how a cache is sized, watched and cleared.\n"
      "\n"
      "Examples:\n"
      "  shardfs cache ls /data\n"
      "  shardfs cache pin /data/val\n"
      "  shardfs cache limit /data 200G\n"
      "  shardfs cache clear --cache-dir /nvme/shardfs");
}

}  // namespace shardfs::app
