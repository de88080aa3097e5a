// From a node of the tree to what stat(2) shows.
// Thread rule: pure functions.
#pragma once

#include <sys/stat.h>

#include "fs/file_system.h"
#include "tree/tree.h"

namespace shardfs::fs {

/// st_blksize: what stdio and Python take as the size of their buffers.
/// Source: the kernel's default READ (docs/decisions/0007-routes-and-the-kernel.md).
inline constexpr uint32_t kPreferredReadBytes = 128 << 10;

struct stat attributes_of(const tree::Node& node, const FileSystemOptions& options);
/// Only st_ino and the type in st_mode.
struct stat type_of(uint64_t st_ino, tree::Kind kind);

}  // namespace shardfs::fs
