// The only place where a Code becomes an errno.
#pragma once

#include "base/error.h"

namespace shardfs::fs {

/// Always above 0. See docs/semantics.md, "Errors".
int to_errno(const base::Error& error);

}  // namespace shardfs::fs
