// NameExpiry: passes "forget this name" on to the kernel, but not while a lookup in the same directory is under way.
// The kernel takes the directory's lock for it; a parked lookup holds that lock shared; and a waiter for it keeps every
// later lookup and readdir of the directory out until the parked one is answered, which may be the network's time.
// Thread rule: thread-safe; no lock is held while the kernel is called. A name held back too long is seen when its
// lifetime in the kernel ends. Source: docs/decisions/0007-routes-and-the-kernel.md (tried).
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fs/file_system.h"

namespace shardfs::fs {

class NameExpiry {
 public:
  explicit NameExpiry(Kernel& kernel) : kernel_(kernel) {}
  void lookup_begins(NodeId directory);
  /// After its reply.
  void lookup_ended(NodeId directory);
  void expire(NodeId directory, std::string_view name);

 private:
  /// Names held back for one directory; more are dropped. Source: a queue's worth for the kernel side.
  static constexpr size_t kHeldNames = 1024;
  struct Busy {
    int lookups = 0;
    std::set<std::string> names;
  };

  Kernel& kernel_;
  std::mutex mutex_;  // guards busy_
  std::unordered_map<NodeId, Busy> busy_;
};

}  // namespace shardfs::fs
