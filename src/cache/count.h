// Counting: walks the whole folder to learn what it really holds, after a crash or a change by hand. Removes the litter
// of mounts that died (only names of our own form), and gives the index the rows that it lacks.
// Thread rule: thread-safe; one call takes about a second for 200,000 files, and holds the page lock meanwhile.
#pragma once

#include "cache/core.h"

namespace shardfs::cache {

base::Result<void> count_folder(Core& core);

/// Notes a row for every map file, without counting.
base::Result<void> fill_index(Core& core);

}  // namespace shardfs::cache
