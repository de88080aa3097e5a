// The op table: each function unpacks one kind of request, asks the file system, and has the answer sent.
// No handlers for flush, ioctl, access, lseek, poll, fsync: the kernel remembers most of libfuse's ENOSYS, and a mount
// with `ro` refuses writes by itself.
// Thread rule: called by libfuse's workers; nothing here waits.
#pragma once

#include "fuse/libfuse.h"

namespace shardfs::fuse {

fuse_lowlevel_ops make_operations(bool extended_attributes);

}  // namespace shardfs::fuse
