// Removal of one cache file: from the map, from the folder and from the budget, in an order that a crash can't confuse.
// Not the choice of which: that is the evictor's. Thread rule: thread-safe; blocks on local I/O.
#pragma once

#include <cstdint>

#include "cache/core.h"

namespace shardfs::cache {

enum class Removal {
  kRemoved,
  kInUse,   // open in some mount, or mapped through the kernel by a reader
  kPinned,  // by the user
  kGone,    // was not there
  kFailed,  // the disk refused
};

struct Removed {
  Removal what = Removal::kFailed;
  uint64_t bytes = 0;  // given back to the budget
};

/// Removes the file unless somebody uses it.
Removed remove_file(Core& core, const FileKey& key);

/// For a caller that holds the exclusive lock on the whole data file (kWholeLock) by data_fd.
/// The space is returned by the file system once data_fd is closed, and to the budget here: close it first thing after.
Removed remove_locked_file(Core& core, const FileKey& key, base::UniqueFd data_fd);

/// Marks an open but unpinned file as dead, so that those who have it open let go of it. False if it is
/// pinned, or open in no mount.
bool mark_open_file_dead(Core& core, const FileKey& key);

/// What the file at map_path costs now, as all mounts reckon it. Blocks that are being filled don't count: they are in
/// their filler's reservation. Errors: those of MapFile::open.
base::Result<uint64_t> charge_of(Core& core, const std::string& map_path);

}  // namespace shardfs::cache
