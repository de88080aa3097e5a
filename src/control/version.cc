#include "shardfs/version.h"

namespace shardfs {

const char* version() noexcept { return SHARDFS_VERSION; }

}  // namespace shardfs
