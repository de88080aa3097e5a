// LibfuseLog: sends libfuse's own messages to the log, and keeps the last one: its functions return no reason.
// Thread rule: one at a time; the process's log function stays set after it.
#pragma once

#include <string>

namespace shardfs::fuse {

class LibfuseLog {
 public:
  LibfuseLog();
  /// Since it was made; without the newline. Empty: none.
  std::string last_line() const;
};

}  // namespace shardfs::fuse
