#include <fmt/format.h>

#include <algorithm>

#include "app/options.h"

namespace shardfs::app {
namespace {

using base::Code;

// For mount(8), fstab(5) and systemd.mount(5). A mount is read-only, nosuid and nodev whatever they say.
constexpr std::string_view kForOthers[] = {
    "rw",         "ro",       "defaults",   "auto",    "noauto",   "user",       "nouser",      "users",
    "owner",      "group",    "nofail",     "_netdev", "suid",     "nosuid",     "dev",         "nodev",
    "exec",       "noexec",   "atime",      "noatime", "relatime", "norelatime", "strictatime", "lazytime",
    "nolazytime", "diratime", "nodiratime", "async",   "sync"};

bool is_for_others(std::string_view word) {
  return word.starts_with("x-") || word.starts_with("comment=") ||
         std::find(std::begin(kForOthers), std::end(kForOthers), word) != std::end(kForOthers);
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> result(1);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == '\\' && i + 1 < words.size()) {
      result.back() += words[++i];
    } else if (words[i] == ',') {
      result.emplace_back();
    } else {
      result.back() += words[i];
    }
  }
  return result;
}

}  // namespace

base::Result<void> take_mount_words(const std::string& words, std::map<std::string, std::string>& values,
                                    std::string& config) {
  for (const std::string& word : split(words)) {
    if (word.empty() || is_for_others(word)) continue;
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::replace(name.begin(), name.end(), '_', '-');
    const std::string value = equals == std::string::npos ? "true" : word.substr(equals + 1);
    if (name == "config") {
      config = value;
      continue;
    }
    const bool known = std::any_of(settings().begin(), settings().end(), [&](const Setting& setting) {
      return setting.name == name && (equals != std::string::npos || setting.value_name.empty());
    });
    if (!known) {
      return base::fail(Code::kInvalid,
                        fmt::format("-o: \"{}\" is no option of shardfs, or lacks its value (see shardfs mount --help)",
                                    word.substr(0, equals)));
    }
    values[name] = value;
  }
  return {};
}

}  // namespace shardfs::app
