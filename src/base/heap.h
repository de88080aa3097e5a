// heap: memory that was freed, and that the C library keeps for later, goes back to the system.
// Not a limit of memory: that is a budget (buffer.h).
// Thread rule: thread-safe; takes some milliseconds, and keeps other threads from allocating meanwhile.
#pragma once

namespace shardfs::base {

/// Nothing where the C library has no such call.
void trim_heap();

}  // namespace shardfs::base
