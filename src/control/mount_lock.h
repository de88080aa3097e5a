// MountLock: the right to be the one daemon of a mountpoint, beside its state file. The kernel frees it with the
// process. Not a check of what is mounted: the mount command does that. Thread rule: confined to one thread. Owns the
// lock file, and removes it.
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::control {

class MountLock {
 public:
  /// Blocks up to `patience` for the last daemon's end. Errors: kInvalid if another process holds it, naming it; kIo.
  static base::Result<MountLock> take(const std::string& folder, const std::string& canonical_mountpoint,
                                      std::chrono::milliseconds patience);
  MountLock(MountLock&&) = default;
  MountLock& operator=(MountLock&& other) noexcept;
  ~MountLock();

  /// Takes it from a daemon whose mount was detached, and that lives on for what is open in it.
  static void take_away(const std::string& folder, const std::string& canonical_mountpoint);
  /// Until take_away.
  bool held() const;

 private:
  MountLock(std::string path, base::UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  base::UniqueFd file_;
};

}  // namespace shardfs::control
