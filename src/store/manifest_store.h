// ManifestStore: an ObjectStore whose names are a fixed list: nothing is listed, and no object is asked for that is not
// on it. Bodies come from the store behind it, in the listed version only. Not the reader of manifests: whoever makes
// it has the list. Thread rule: thread-safe. Callbacks of head and list run on the executor. The executor outlives it;
// it owns the store behind it.
#pragma once

#include <memory>
#include <vector>

#include "base/executor.h"
#include "store/object_store.h"

namespace shardfs::store {

/// objects: sorted by key, each key once, each with an ETag.
std::unique_ptr<ObjectStore> make_manifest_store(std::vector<ObjectInfo> objects, std::unique_ptr<ObjectStore> behind,
                                                 base::Executor& executor);

}  // namespace shardfs::store
