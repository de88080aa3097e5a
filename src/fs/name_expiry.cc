#include "fs/name_expiry.h"

#include <utility>

namespace shardfs::fs {

void NameExpiry::lookup_begins(NodeId directory) {
  std::lock_guard lock(mutex_);
  ++busy_[directory].lookups;
}

void NameExpiry::lookup_ended(NodeId directory) {
  std::set<std::string> names;
  {
    std::lock_guard lock(mutex_);
    const auto place = busy_.find(directory);
    if (place == busy_.end() || --place->second.lookups > 0) return;
    names = std::move(place->second.names);
    busy_.erase(place);
  }
  for (const auto& name : names) kernel_.expire_name(directory, name);
}

void NameExpiry::expire(NodeId directory, std::string_view name) {
  {
    std::lock_guard lock(mutex_);
    const auto place = busy_.find(directory);
    if (place != busy_.end()) {
      if (place->second.names.size() < kHeldNames) place->second.names.emplace(name);
      return;
    }
  }
  kernel_.expire_name(directory, name);
}

}  // namespace shardfs::fs
