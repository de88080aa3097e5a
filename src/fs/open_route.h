// OpenRoutes: what the open handles of each node have in common, and by which route a new one gets its bytes.
// The kernel's rule: one inode can't be open through the daemon ("cached") and in passthrough at once, and all its
// passthrough handles share one backing id. So the counts are raised before the reply and lowered at release.
// Not the handle table, and it answers nobody by itself.
// Thread rule: thread-safe. Lock order: the table's lock and a node's are never held together; none is held while the
// tree, fetcher, cache or kernel is called, or a `done` runs.
// Owns each open node's SourceFile, backing id and pin. Source of the rule:
// docs/decisions/0007-routes-and-the-kernel.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fetch/fetcher.h"
#include "fs/file_system.h"
#include "fs/meters.h"
#include "fs/name_expiry.h"
#include "tree/tree.h"

namespace shardfs::fs {

class OpenNode;

/// Smaller files are read through the daemon, complete or not: two requests and then the page cache, where a
/// passthrough open would cost the daemon 100 us each time. Source: docs/decisions/0007.
inline constexpr uint64_t kPassthroughFromBytes = (256 << 10) + 1;

class OpenRoutes {
 public:
  struct Outcome {
    std::shared_ptr<OpenNode> node;  // null: error says why
    Route route = Route::kDaemon;
    int backing_id = 0;  // passthrough only
    int error = 0;
  };
  using Done = std::function<void(const Outcome&)>;

  OpenRoutes(tree::Tree& tree, fetch::Fetcher& fetcher, Kernel& kernel, NameExpiry& expiry, Meters& meters)
      : tree_(tree), fetcher_(fetcher), kernel_(kernel), expiry_(expiry), meters_(meters) {}

  /// The count is raised when done runs: before open returns, or, while another open of this node registers its backing
  /// file, on that one's thread.
  void open(const tree::Node& node, uint32_t process, Done done);
  /// Balances one successful open.
  void close(const std::shared_ptr<OpenNode>& node, Route route);
  /// Null unless it is open.
  std::shared_ptr<fetch::SourceFile> source_of(NodeId node) const;

  /// The kernel may read this object by itself from now on.
  void on_complete(const store::ObjectInfo& info);
  /// This object is another version now, or gone.
  void on_changed(const store::ObjectInfo& info);

 private:
  std::shared_ptr<OpenNode> enter(const tree::Node& node);
  void leave(const std::shared_ptr<OpenNode>& node);
  std::vector<std::shared_ptr<OpenNode>> nodes_of(const store::ObjectInfo& info) const;
  void decide_first(const std::shared_ptr<OpenNode>& node, const Done& done);
  /// 0 if the kernel can't read it by itself.
  int register_backing(OpenNode& node, fetch::SourceFile::Backing& backing);
  void retire(OpenNode& node);
  void retire_if_complete(OpenNode& node);
  void count(const OpenNode& node, Route route);

  tree::Tree& tree_;
  fetch::Fetcher& fetcher_;
  Kernel& kernel_;
  NameExpiry& expiry_;
  Meters& meters_;
  mutable std::mutex mutex_;  // guards the two tables and OpenNode::users_
  std::unordered_map<NodeId, std::shared_ptr<OpenNode>> by_node_;
  std::unordered_multimap<std::string, std::shared_ptr<OpenNode>> by_object_;  // key and version
};

/// One node while it has handles, or opens under way.
class OpenNode {
 public:
  OpenNode(const tree::Node& node, std::shared_ptr<fetch::SourceFile> source, std::string object)
      : id_(node.id),
        parent_(node.parent),
        name_(node.name),
        size_bytes_(node.info.size_bytes),
        object_(std::move(object)),
        source_(std::move(source)) {}
  uint64_t size_bytes() const { return size_bytes_; }
  /// Null for an empty object: there is nothing to read.
  const std::shared_ptr<fetch::SourceFile>& source() const { return source_; }

 private:
  friend class OpenRoutes;
  const NodeId id_;
  const NodeId parent_;
  const std::string name_;
  const uint64_t size_bytes_;
  const std::string object_;
  const std::shared_ptr<fetch::SourceFile> source_;
  int users_ = 0;  // handles, and opens under way

  std::mutex mutex_;  // guards all below
  int cached_ = 0;
  int passthrough_ = 0;
  int backing_id_ = 0;  // not 0 while passthrough_ > 0
  fetch::SourceFile::Backing backing_;
  bool deciding_ = false;                               // the first open is asking the cache and the kernel
  bool completed_ = false;                              // since it was opened
  bool settled_ = size_bytes_ < kPassthroughFromBytes;  // retired, or a new nodeid would not help
  std::vector<OpenRoutes::Done> waiting_;               // opens that came while deciding_
};

}  // namespace shardfs::fs
