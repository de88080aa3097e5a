// Tree: the names below the mounted prefix, what is known of them and for how long, and the inode table.
// Not the file system: it knows no open files, no routes to bytes, no errno. It asks the store for metadata only.
// Thread rule: thread-safe. No call blocks; callbacks run on the caller's thread (answered from memory) or a store or
// timer thread, never under a lock of the tree. The store, clock, timer and metrics outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "store/object.h"
#include "store/object_store.h"

namespace shardfs::tree {

using NodeId = uint64_t;
inline constexpr NodeId kRootNode = 1;

enum class Kind : uint8_t { kDirectory, kFile };

struct TreeOptions {
  std::string prefix;  // "" or "a/b/" (with the slash)
  std::chrono::milliseconds metadata_ttl{60000};
  std::chrono::milliseconds negative_ttl{2000};
  bool stale_if_error = true;
  std::chrono::milliseconds stale_after{1000};  // without an answer for this long, the last known is served
  // Names kept over all directories, about 200 bytes each; the directory used last may pass it alone.
  // Source: 60 MB of the mount's 256 MiB, and five times the 60,000 files of a large folder of shards.
  size_t listed_names_limit = 300000;
  // A directory is listed one page after the other up to so many names, then several at once: that takes up to twice the
  // requests. Source: 24 pages of S3, a second or two; whoever pays for requests has fewer long directories than short ones.
  size_t names_before_parallel = 24000;
};

/// A node as it is now. A nodeid stands for one (path, version, route): it never becomes another version.
struct Node {
  NodeId id = 0;
  uint64_t st_ino = 0;  // stable for (path, version), also over remounts; the same for all nodeids of it
  Kind kind = Kind::kFile;
  NodeId parent = 0;                       // 0 for the root
  std::string name;                        // within the parent; "" for the root
  store::ObjectInfo info;                  // files; key in full. Directories: only last_modified
  std::chrono::milliseconds valid_for{0};  // how long the kernel may keep name and attributes
};

struct ListedName {
  std::string name;
  Kind kind = Kind::kFile;
  uint64_t size_bytes = 0;
  base::WallTime last_modified{};
  store::ETag etag;
};

/// One directory's names, sorted by bytes, each once. Immutable.
struct Listing {
  std::vector<ListedName> names;
  base::SteadyTime listed_at{};
};

class Tree {
 public:
  virtual ~Tree() = default;
  static std::unique_ptr<Tree> make(TreeOptions options, store::ObjectStore& store, const base::Clock& clock,
                                    base::Timer& timer, base::Metrics& metrics);

  /// Reads the root's first page, so that a wrong bucket, key or endpoint shows at mount; if it is empty the prefix is
  /// asked for as a key. Errors: as ObjectStore::list; kNotDirectory: the prefix is an object, and nothing lies below.
  virtual void start(std::chrono::milliseconds deadline, std::function<void(base::Result<void>)> done) = 0;

  /// On success the kernel's lookup count of the node has been raised by one.
  /// Errors: kNotFound (only if the store or a fresh listing said so), kNotDirectory, kNameTooLong, and the store's.
  using NodeDone = std::function<void(base::Result<Node>)>;
  virtual void lookup(NodeId parent, std::string_view name, NodeDone done) = 0;
  /// Revalidated when its lifetime has passed; never changes the count. kChanged: the name is another version now.
  virtual void getattr(NodeId node, NodeDone done) = 0;
  virtual void forget(NodeId node, uint64_t count) = 0;
  /// What is known now, without asking anybody. Errors: kNotFound for a nodeid that was forgotten.
  virtual base::Result<Node> find(NodeId node) const = 0;

  /// For opendir: the listing from memory if it is fresh, else from the store.
  virtual void list(NodeId directory, std::function<void(base::Result<std::shared_ptr<const Listing>>)> done) = 0;
  /// The node of a listed name, count raised by one (readdirplus).
  virtual base::Result<Node> enter(NodeId directory, const ListedName& listed) = 0;

  // For what is fetched before it is asked for; paths are relative to the mounted prefix, "" is the root.
  /// What is known of a directory's names now, however old, without asking anybody. Null: nothing, or not all of it.
  virtual std::shared_ptr<const Listing> known_listing(std::string_view directory) = 0;
  /// As `enter`, but makes no node and counts nothing: the object behind a listed name, by the newest that is known of
  /// it. Nothing: it is a directory, or is known to be gone.
  virtual std::optional<store::ObjectInfo> known_file(std::string_view directory, const ListedName& listed) = 0;
  /// The known listing while its names are in the first half of their lifetime, else the store's, at the lowest
  /// priority. Errors: as list; kUnsupported: it is too long for names that nobody asked for.
  virtual void list_unasked(std::string_view directory,
                            std::function<void(base::Result<std::shared_ptr<const Listing>>)> done) = 0;

  /// The next lookup of this path makes a new nodeid even for the same version (a new route to its bytes).
  virtual void retire(NodeId node) = 0;
  /// What was known of this node's name is wrong (another version, deleted): the next lookup asks the store.
  virtual void expire(NodeId node) = 0;

  /// Drops what is known of this path (relative to the mounted prefix, "" is the root) and of all below it. Returns the
  /// names there that the kernel may know, by the node of their directory: it is to forget them, too.
  struct KernelName {
    NodeId directory = 0;
    std::string name;
  };
  virtual std::vector<KernelName> refresh(std::string_view path) = 0;

  /// Called as soon as a lookup's HEAD says that it is a file, maybe before the lookup is answered: a chance to start
  /// fetching. Set once, before the first lookup.
  virtual void on_file_found(std::function<void(const store::ObjectInfo&)> hook) = 0;

  /// For stats and tests.
  virtual size_t node_count() const = 0;
};

}  // namespace shardfs::tree
