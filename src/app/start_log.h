// StartLog: holds the log lines of the start back, so that a mount which fails says one line and not five.
// Not for a log file, nor for the levels info and debug: their lines go where they belong at once.
// Thread rule: confined to the main thread; lines may come from any thread.
#pragma once

#include <string>

#include "app/options.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::app {

class StartLog {
 public:
  /// Sets the log up. Errors: kIo.
  static base::Result<StartLog> begin(const MountOptions& options);
  /// Shows what was held as "shardfs: warning: ...", and lets lines through from now on.
  void release();

 private:
  StartLog(base::LogLevel level, base::UniqueFd held) : level_(level), held_(std::move(held)) {}
  base::LogLevel level_;
  base::UniqueFd held_;  // a file in memory; none: nothing is held
};

}  // namespace shardfs::app
