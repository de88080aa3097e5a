// The steps of `shardfs check` that ask this machine: FUSE and passthrough, by a mount on a folder of its own, and the
// cache's disk.
// Thread rule: plain functions that block; each has its own limit of time.
#pragma once

#include <string>
#include <vector>

#include "app/check_report.h"
#include "app/options.h"

namespace shardfs::app {

/// Whether this kernel and user may mount at all: rows "fuse" (and "passthrough", if not).
std::vector<CheckRow> check_fuse();

/// Mounts the source (with the options of the command line) on a folder that is removed again: rows "mount" and
/// "passthrough".
std::vector<CheckRow> check_mount(const std::string& source, const std::vector<std::string>& flags);

/// Writes and reads a file of up to 256 MiB without a name in the cache folder: rows "cache space" and "cache disk".
std::vector<CheckRow> check_cache(const MountOptions& options);

}  // namespace shardfs::app
