// Paths as people and programs name files of a mount, to paths below its root. Pure; asks nobody.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace shardfs::app {

/// file: relative to the mountpoint, or absolute below it. The result is relative, without "." and empty parts; "" for
/// the root, for what is not below it, and for what has a part "..".
std::string path_below(std::string_view mountpoint, std::string_view file);

}  // namespace shardfs::app
