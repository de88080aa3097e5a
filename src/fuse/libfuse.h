// The one include of libfuse's low-level interface, with the version of it that this room is written for.
// Compiles against 3.12 (Debian 12 and Ubuntu 24.04 have 3.14) and newer; passthrough needs 3.17.
#pragma once

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <fuse_lowlevel.h>

#define SHARDFS_LIBFUSE_PASSTHROUGH (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))
