// PathLookup: from paths below a mount to the objects that they are now, through the tree: from memory where it is
// fresh, else from the store. Not the kernel's way in: nothing stays counted.
// Thread rule: thread-safe; find() blocks its caller up to the deadline, and no other thread. The tree outlives it, and
// lookups that it still has under way.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/object.h"
#include "tree/tree.h"

namespace shardfs::app {

class PathLookup {
 public:
  explicit PathLookup(tree::Tree& tree) : tree_(tree) {}

  /// paths: as path_below() gives them. One answer a path, in their order. Errors: kNotFound, kIsDirectory, kTimeout,
  /// and those of Tree::lookup.
  std::vector<base::Result<store::ObjectInfo>> find(const std::vector<std::string>& paths,
                                                    std::chrono::milliseconds deadline);

 private:
  tree::Tree& tree_;
};

}  // namespace shardfs::app
