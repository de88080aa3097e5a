// FileSystem: the operations of a read-only file system over tree and fetch, without any FUSE type.
// It decides the route of each open (passthrough or daemon), keeps the handles, and is the only place where a Code
// becomes an errno. It never waits for the network: every operation that may has a callback.
// Thread rule: thread-safe. Callbacks run on the caller's or any other thread, under no lock; errors in them are errno
// values above 0. Tree, fetcher, metrics and kernel outlive it.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "cache/cache.h"
#include "fetch/fetcher.h"
#include "tree/tree.h"

namespace shardfs::fs {

using tree::NodeId;
using HandleId = uint64_t;

/// Who asks.
struct Caller {
  uint32_t process = 0;  // 0: unknown
  uint32_t uid = 0;
  uint32_t gid = 0;
};

/// An answer or an errno (> 0).
template <class T>
struct Reply {
  int error = 0;
  T value{};
};

struct EntryReply {
  NodeId node = 0;
  struct stat attributes {};
  std::chrono::milliseconds valid_for{0};
};
struct AttrReply {
  struct stat attributes {};
  std::chrono::milliseconds valid_for{0};
};
enum class Route : uint8_t { kDaemon, kPassthrough };
struct OpenReply {
  HandleId handle = 0;
  Route route = Route::kDaemon;
  int backing_id = 0;  // passthrough only
};
struct OpenDirectoryReply {
  HandleId handle = 0;
  bool same_listing = false;  // as at the last opendir of this node: what the kernel keeps of it is right
};
struct DirectoryEntry {
  std::string_view name;      // valid within the callback
  struct stat attributes {};  // st_ino and type always; all of it with `with_attributes`
  NodeId node = 0;            // with attributes: count raised; else 0
  std::chrono::milliseconds valid_for{0};
  uint64_t next_offset = 0;  // where to go on after it
};

/// What the kernel side offers. Calls come from any thread and hold no lock of fs.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual bool passthrough() const = 0;
  /// Registers a file that the kernel may read; the descriptor may be closed after it. Errors: kUnsupported,
  /// kPermission.
  virtual base::Result<int> open_backing(int descriptor) = 0;
  virtual void close_backing(int backing_id) = 0;
  /// Queues it for a thread of its own; never blocks. The kernel forgets the name.
  virtual void expire_name(NodeId parent, std::string_view name) = 0;
};

struct FileSystemOptions {
  uint32_t uid = 0;  // owner shown
  uint32_t gid = 0;
  uint32_t file_mode = 0444;
  uint32_t directory_mode = 0555;
  std::string key_prefix;  // of the mount, "" or "a/b/": for the xattr user.shardfs.key of directories
  uint64_t statfs_total_bytes = 1ull << 50;
  uint64_t memory_bytes = 256 << 20;  // of the mount: what is fetched before it is asked for takes a part of it
};

/// What became of a list of files that a job is going to open.
struct HintReply {
  size_t accepted = 0;
  size_t unknown = 0;  // no file that the mount knows of by now; nobody was asked
};

/// Answers a parked operation with EINTR at once, if it is still parked. Null: it was answered already. Any thread; may
/// be repeated, also after the operation or the file system has ended.
using Cancel = std::function<void()>;

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// executor: runs tasks that wait for the local disk; outlives it.
  static std::unique_ptr<FileSystem> make(FileSystemOptions options, tree::Tree& tree, fetch::Fetcher& fetcher,
                                          cache::Cache* cache, base::Executor& executor, const base::Clock& clock,
                                          base::Metrics& metrics, Kernel& kernel);

  /// On success the node's count has been raised: whoever can't deliver the reply calls forget.
  virtual Cancel lookup(NodeId parent, std::string_view name, std::function<void(Reply<EntryReply>)> done) = 0;
  virtual void forget(NodeId node, uint64_t count) = 0;
  virtual Cancel getattr(NodeId node, std::function<void(Reply<AttrReply>)> done) = 0;
  /// flags as open(2). EROFS for anything that writes. ESTALE if the node's version is gone.
  virtual Cancel open(NodeId node, int flags, Caller caller, std::function<void(Reply<OpenReply>)> done) = 0;
  /// The pieces are valid within the callback.
  virtual Cancel read(HandleId handle, uint64_t offset_bytes, size_t size_bytes, Caller caller,
                      std::function<void(Reply<fetch::Pieces>)> done) = 0;
  virtual void release(HandleId handle) = 0;
  virtual Cancel opendir(NodeId node, std::function<void(Reply<OpenDirectoryReply>)> done) = 0;
  /// Calls `emit` for entries from offset on until it returns false; "." and ".." included. Never waits: the listing
  /// was taken by opendir. An entry that emit refuses has no count raised.
  virtual int readdir(HandleId handle, uint64_t offset, bool with_attributes,
                      const std::function<bool(const DirectoryEntry&)>& emit) = 0;
  virtual void releasedir(HandleId handle) = 0;
  virtual Reply<struct statvfs> statfs() = 0;
  /// user.shardfs.etag, .key, .cached_bytes, .state; ENODATA for others.
  virtual Reply<std::string> getxattr(NodeId node, std::string_view name) = 0;
  virtual Reply<std::vector<std::string>> listxattr(NodeId node) = 0;
  /// The files that will be opened next, in order, as paths below the mount. For their directories it takes the place
  /// of the last hint, or goes on after it. Never waits.
  virtual HintReply hint(std::span<const std::string> paths, bool append) = 0;
  /// Drops what is known of this path (relative to the mount, "" is all) and of all below it, in the kernel too: the
  /// next questions ask the store. Returns the number of names that the kernel is told to forget. Never waits.
  virtual size_t refresh(std::string_view path) = 0;
  /// Answers all that is parked with EIO; further operations answer EIO, closes still work. Comes before the fetcher's.
  /// Returns when no other thread writes an answer. The destructor does it too, and closes the handles that are left.
  /// Requires: not called from a callback of this object.
  virtual void shut_down() = 0;
};

}  // namespace shardfs::fs
