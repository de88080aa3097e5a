// MountArguments: the options of a session as libfuse wants them.
// Thread rule: confined to its owner.
#pragma once

#include <string>

#include "fuse/libfuse.h"
#include "fuse/session.h"

namespace shardfs::fuse {

/// "ro,nosuid,...": commas and backslashes in values escaped.
std::string mount_option_text(const SessionOptions& options);

class MountArguments {
 public:
  explicit MountArguments(const SessionOptions& options);
  ~MountArguments() { fuse_opt_free_args(&arguments_); }
  MountArguments(const MountArguments&) = delete;
  MountArguments& operator=(const MountArguments&) = delete;
  fuse_args* get() { return &arguments_; }

 private:
  fuse_args arguments_ = FUSE_ARGS_INIT(0, nullptr);
};

}  // namespace shardfs::fuse
