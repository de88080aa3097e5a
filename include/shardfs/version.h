// The version of the shardfs that a program was linked with.
#pragma once

namespace shardfs {

/// "1.2.3"; lives as long as the program.
const char* version() noexcept;

}  // namespace shardfs
