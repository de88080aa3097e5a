// HintHandler: the control command "hint": a list of files that a job will open next, from JSON to paths below the
// mount. Directories that the mount has not listed yet are listed for it, a bounded number; nothing else is asked of
// the store. Not the file system, which judges and uses the names. Thread rule: thread-safe; handle() blocks for
// kListDeadline at most. Owns nothing but the functions.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "shardfs/control_client.h"

namespace shardfs::app {

class HintHandler {
 public:
  // Source: a mount is used by a handful of directories of shards; a list of nonsense costs no more requests than this.
  static constexpr size_t kDirectoriesListed = 64;
  // Source: ten pages of a listing take half a second; somebody waits, and so does the mount's end.
  static constexpr std::chrono::milliseconds kListDeadline{3000};

  /// Makes the names of a directory known; done may be called from any thread, also much later.
  using List = std::function<void(const std::string& directory, std::function<void()> done)>;
  /// Paths below the mount, in order; append: after those of the last call.
  using Give = std::function<HintResult(const std::vector<std::string>& paths, bool append)>;

  HintHandler(std::string mountpoint, List list, Give give)
      : mountpoint_(std::move(mountpoint)), list_(std::move(list)), give_(std::move(give)) {}

  /// arguments: {"files": [TEXT, ...], "append": false}. The answer: {"accepted": N, "unknown": N}. Errors: kInvalid.
  base::Result<std::string> handle(const std::string& arguments) const;

 private:
  void list_directories(const std::vector<std::string>& paths) const;

  const std::string mountpoint_;
  const List list_;
  const Give give_;
};

}  // namespace shardfs::app
