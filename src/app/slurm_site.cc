#include "app/slurm_site.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "app/options.h"
#include "app/url.h"
#include "base/units.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;

std::string text_of(const toml::table& table) {
  std::ostringstream text;
  text << table;
  return text.str();
}

// One table of the file: every key is taken by name, and what is left over is unknown.
class Table {
 public:
  Table(const toml::table& table, std::string origin, std::string where)
      : table_(table), origin_(std::move(origin)), where_(std::move(where)) {}

  void text(const char* key, const std::function<Result<void>(const std::string&)>& take) {
    if (const toml::node* const node = find(key)) {
      const auto* const string = node->as_string();
      if (string == nullptr) return refuse(*node, key, "must be a text");
      if (auto taken = take(string->get()); !taken) refuse(*node, key, taken.error().message);
    }
  }
  void text(const char* key, std::string& place) {
    text(key, [&](const std::string& value) -> Result<void> {
      place = value;
      return {};
    });
  }
  void duration(const char* key, std::chrono::milliseconds& place) {
    text(key, [&](const std::string& value) -> Result<void> {
      auto parsed = base::parse_duration(value);
      if (!parsed) return tl::unexpected(std::move(parsed.error()));
      if (parsed->count() <= 0 || *parsed > std::chrono::hours(1)) return fail(Code::kInvalid, "1ms to 1h");
      place = *parsed;
      return {};
    });
  }
  template <class Place>
  void on_failure(const char* key, Place& place) {
    text(key, [&](const std::string& value) -> Result<void> {
      auto parsed = parse_on_failure(value);
      if (!parsed) return tl::unexpected(std::move(parsed.error()));
      place = *parsed;
      return {};
    });
  }
  void truth(const char* key, bool& place) {
    if (const toml::node* const node = find(key)) {
      if (!node->is_boolean()) return refuse(*node, key, "must be true or false");
      place = node->as_boolean()->get();
    }
  }
  void texts(const char* key, std::vector<std::string>& place) {
    const toml::node* const node = find(key);
    if (node == nullptr) return;
    const auto* const array = node->as_array();
    if (array == nullptr) return refuse(*node, key, "must be a list of texts");
    for (const auto& each : *array) {
      if (!each.is_string()) return refuse(*node, key, "must be a list of texts");
      place.push_back(each.as_string()->get());
    }
  }
  // [options]: settings of `shardfs mount`, checked as there.
  void settings(const char* key, SettingValues& place) {
    const toml::node* const node = find(key);
    if (node == nullptr) return;
    const auto* const table = node->as_table();
    if (table == nullptr) return refuse(*node, key, "must be a table");
    auto values = parse_toml(text_of(*table), origin_);
    if (!values) return refuse(*node, key, values.error().message);
    for (const char* ours : {"foreground", "uid", "gid", "file-mode", "dir-mode", "allow-other"}) {
      if (values->count(ours) != 0) return refuse(*node, key, fmt::format("{} is decided for each job", ours));
    }
    OptionSources sources;
    sources.command_line = *values;
    sources.environment = [](const std::string&) { return std::nullopt; };
    if (auto resolved = resolve_options(sources); !resolved) return refuse(*node, key, resolved.error().message);
    place = std::move(*values);
  }
  const toml::table* part(const char* key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) refuse(*node, key, "must be a table");
    return node->as_table();
  }
  void refuse(const toml::node& node, const std::string& key, const std::string& why) {
    if (error_.empty())
      error_ = fmt::format("{}, line {}: {}{}: {}", origin_, node.source().begin.line, where_, key, why);
  }
  /// After all keys were asked for.
  Result<void> finish() {
    for (const auto& [key, node] : table_) {
      if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
      refuse(node, std::string(key.str()), fmt::format("unknown; known are {}", fmt::join(asked_, ", ")));
    }
    if (!error_.empty()) return fail(Code::kInvalid, error_);
    return {};
  }

 private:
  const toml::node* find(const char* key) {
    asked_.emplace_back(key);
    return table_.get(key);
  }
  const toml::table& table_;
  const std::string origin_;
  const std::string where_;  // "mounts.imagenet."
  std::vector<std::string> asked_;
  std::string error_;
};

Result<void> check_source(const std::string& text) {
  auto url = parse_url(text);
  if (!url) return tl::unexpected(std::move(url.error()));
  return {};
}

Result<void> check_path(const std::string& text) {
  if (!text.starts_with('/') || text.size() < 2 || text.find("/../") != std::string::npos || text.ends_with("/.."))
    return fail(Code::kInvalid, fmt::format("\"{}\" is not an absolute path", text));
  return {};
}

Result<SiteMount> parse_mount(const toml::table& table, const std::string& origin, const std::string& name) {
  SiteMount mount;
  mount.name = name;
  Table keys(table, origin, fmt::format("mounts.{}.", name));
  const auto checked = [](std::string& place, Result<void> (*check)(const std::string&)) {
    return [&place, check](const std::string& value) {
      place = value;
      return check(value);
    };
  };
  if (!is_mount_name(name)) keys.refuse(table, "", "a name is made of letters, digits, dot, dash and underscore");
  keys.text("source", checked(mount.source, check_source));
  keys.text("path", checked(mount.path, check_path));
  keys.texts("partitions", mount.partitions);
  keys.truth("for-all-jobs", mount.for_all_jobs);
  keys.truth("shared", mount.shared);
  keys.text("environment-file", checked(mount.environment_file, check_path));
  keys.on_failure("on-failure", mount.on_failure);
  keys.settings("options", mount.options);
  if (mount.source.empty() || mount.path.empty()) keys.refuse(table, "", "it needs source and path");
  if (auto done = keys.finish(); !done) return tl::unexpected(std::move(done.error()));
  return mount;
}

}  // namespace

bool is_mount_name(const std::string& name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name.find_first_not_of(kAllowed) == std::string::npos;
}

Result<OnFailure> parse_on_failure(const std::string& text) {
  if (text == "drain") return OnFailure::kDrain;
  if (text == "cancel") return OnFailure::kCancel;
  if (text == "continue") return OnFailure::kContinue;
  return fail(Code::kInvalid, fmt::format("\"{}\" is not drain, cancel or continue", text));
}

Result<SlurmSite> parse_slurm_site(const std::string& text, const std::string& origin) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalid, fmt::format("{}, line {}: {}", origin, error.source().begin.line, error.description()));
  }
  SlurmSite site;
  Table keys(table, origin, "");
  keys.on_failure("on-failure", site.on_failure);
  keys.on_failure("on-job-error", site.on_job_error);
  keys.text("on-epilog-failure", [&](const std::string& value) -> Result<void> {
    if (value != "drain" && value != "continue") return fail(Code::kInvalid, "must be drain or continue");
    site.on_epilog_failure = value == "drain" ? OnFailure::kDrain : OnFailure::kContinue;
    return {};
  });
  keys.duration("mount-timeout", site.mount_timeout);
  keys.duration("umount-timeout", site.umount_timeout);
  keys.duration("command-timeout", site.command_timeout);
  keys.text("systemd-scope", [&](const std::string& value) -> Result<void> {
    if (value != "auto" && value != "always" && value != "never")
      return fail(Code::kInvalid, "must be auto, always or never");
    site.scope = value;
    return {};
  });
  if (const toml::table* const mounts = keys.part("mounts")) {
    for (const auto& [name, node] : *mounts) {
      if (!node.is_table()) {
        keys.refuse(node, fmt::format("mounts.{}", name.str()), "must be a table");
        break;
      }
      auto mount = parse_mount(*node.as_table(), origin, std::string(name.str()));
      if (!mount) return tl::unexpected(std::move(mount.error()));
      site.mounts.push_back(std::move(*mount));
    }
  }
  if (const toml::table* const own = keys.part("job-mounts")) {
    Table inner(*own, origin, "job-mounts.");
    inner.truth("allow", site.job_mounts);
    inner.text("folder", [&](const std::string& value) {
      site.job_folder = value;
      return check_path(value);
    });
    inner.texts("partitions", site.job_partitions);
    inner.settings("options", site.job_options);
    if (auto done = inner.finish(); !done) return tl::unexpected(std::move(done.error()));
  }
  if (auto done = keys.finish(); !done) return tl::unexpected(std::move(done.error()));
  return site;
}

}  // namespace shardfs::app
