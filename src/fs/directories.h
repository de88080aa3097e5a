// Directories: the open directories and their snapshots of a listing, and what readdir emits of them.
// Thread rule: thread-safe. Nothing here waits: the listing was taken at open. No lock is held while the tree or `emit`
// is called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fs/file_system.h"
#include "fs/handles.h"
#include "fs/meters.h"
#include "tree/tree.h"

namespace shardfs::fs {

class Directories {
 public:
  Directories(tree::Tree& tree, const FileSystemOptions& options, Meters& meters)
      : tree_(tree), options_(options), meters_(meters) {}

  OpenDirectoryReply open(NodeId node, std::shared_ptr<const tree::Listing> listing);
  /// As FileSystem::readdir. Offset 0 is ".", 1 is "..", 2 + i the listing's name i.
  int read(HandleId handle, uint64_t offset, bool with_attributes,
           const std::function<bool(const DirectoryEntry&)>& emit);
  void close(HandleId handle);
  /// The kernel has dropped (some of) what it knew of this node.
  void forget(NodeId node);
  void close_all();

 private:
  struct Open {
    NodeId node = 0;
    uint64_t st_ino = 0;
    uint64_t parent_st_ino = 0;
    std::shared_ptr<const tree::Listing> listing;
  };
  /// What the kernel may have cached of a directory.
  struct Shown {
    std::weak_ptr<const tree::Listing> listing;
    uint64_t digest = 0;
  };
  bool same_as_last(NodeId node, const std::shared_ptr<const tree::Listing>& listing);
  bool emit_name(const Open& open, const tree::ListedName& listed, uint64_t next_offset, bool with_attributes,
                 const std::function<bool(const DirectoryEntry&)>& emit);

  tree::Tree& tree_;
  const FileSystemOptions& options_;
  Meters& meters_;
  HandleTable<Open> handles_;
  std::mutex mutex_;  // guards shown_
  std::unordered_map<NodeId, Shown> shown_;
};

}  // namespace shardfs::fs
