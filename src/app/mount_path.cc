#include "app/mount_path.h"

#include <algorithm>

namespace shardfs::app {

std::string path_below(std::string_view mountpoint, std::string_view file) {
  if (file.starts_with('/')) {
    if (!file.starts_with(mountpoint)) return {};
    file.remove_prefix(mountpoint.size());
    if (!file.starts_with('/') && !mountpoint.ends_with('/')) return {};
  }
  std::string path;
  while (!file.empty()) {
    const size_t end = std::min(file.find('/'), file.size());
    const std::string_view part = file.substr(0, end);
    file.remove_prefix(std::min(end + 1, file.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    path.append(path.empty() ? "" : "/").append(part);
  }
  return path;
}

}  // namespace shardfs::app
