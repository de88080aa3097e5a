// replace_file: a small file gets new contents at once: whoever reads it sees the old or the new ones, never a part.
// Not for the cache, which goes through Disk, and not synced: after a power cut it may be the old one, or gone.
// Thread rule: thread-safe for different paths; blocks on local I/O.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::base {

/// By a file beside it, PATH.PID.tmp, which is gone afterwards, also on failure. mode: as of chmod, whatever the umask.
/// Errors: kIo with sys_errno.
Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode);

}  // namespace shardfs::base
