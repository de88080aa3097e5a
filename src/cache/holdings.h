// Holdings: what lies in a cache folder, for the person who keeps it: look, pin, evict, clear, set the limit.
// Not for readers: every call looks into the index and may take long. All mounts and namespaces of the folder are
// seen; what another process has open is never removed. It lives as long as its Cache, which owns it.
// Thread rule: thread-safe; blocks on local disk I/O.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/cache.h"
#include "store/object.h"

namespace shardfs::cache {

/// One cache file, as it is now.
struct Holding {
  std::string name;  // "NAMESPACE/HASH": what its files in the folder are called
  store::ObjectId id;
  uint64_t size_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t cost_bytes = 0;  // of the limit
  bool complete = false;
  bool verified = false;  // complete, and every block written or checked since the machine started
  bool pinned = false;    // by the user
  bool open = false;      // in some mount, also one that only keeps it at hand
  int64_t last_use_ms = 0;
};

enum class Evicted {
  kEvicted,
  kPinned,
  kInUse,
  kGone,    // was not there
  kFailed,  // the disk refused
};

class Holdings {
 public:
  virtual ~Holdings() = default;

  struct Page {
    std::vector<Holding> entries;
    std::string next;  // for the page after it; empty: this was the last one
  };
  /// In the order of names, after this one ("": from the beginning); looks at `count` files at most. Errors: kCacheIo.
  virtual base::Result<Page> list(const std::string& after, size_t count) = 0;
  /// All versions of one key, or, if it ends with a slash or is empty, of all keys below. Errors: kCacheIo.
  virtual base::Result<std::vector<Holding>> matching(const std::string& bucket, const std::string& key) = 0;
  /// Errors: kNotFound; kCacheIo.
  virtual base::Result<Holding> find(const std::string& name) = 0;
  /// Of this mount's namespace. Errors: kNotFound; kCacheIo.
  virtual base::Result<Holding> find(const store::ObjectId& id, uint64_t size_bytes) = 0;

  /// Keeps it from being evicted until it is unpinned, also over remounts. Makes an empty entry for what is not there,
  /// and room for the whole object. Errors: kCacheFull: with what is pinned already it is more than the limit, or
  /// other files are in use; kCacheIo.
  virtual base::Result<Holding> pin(const store::ObjectId& id, uint64_t size_bytes) = 0;
  /// Errors: kNotFound, and those of pin.
  virtual base::Result<Holding> pin(const std::string& name) = 0;
  /// Errors: kNotFound; kCacheIo.
  virtual base::Result<Holding> unpin(const std::string& name) = 0;
  virtual Evicted evict(const std::string& name) = 0;
  /// Whether so much could be reserved for this object now; makes room for it as a fill would.
  virtual bool admits(const store::ObjectId& id, uint64_t bytes) = 0;

  struct BadBlock {
    std::string name;
    store::ObjectId id;
    uint32_t block = 0;
  };
  struct Check {
    uint64_t files = 0;  // begun
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    std::vector<BadBlock> bad;
    std::string next;  // where to go on; empty: all was checked
  };
  /// Reads blocks from the disk and compares them with their checksums, for about as long. A bad one is dropped: its
  /// file is partial again, and the block is fetched again when it is read. after: the last answer's `next`.
  /// Errors: kCacheIo.
  virtual base::Result<Check> check(const std::string& after, std::chrono::milliseconds duration) = 0;

  struct Limit {
    uint64_t limit_bytes = 0;  // that holds now
    bool of_folder = false;    // set here for all mounts of the folder; else this mount's own
    uint64_t used_bytes = 0;
    uint64_t pinned_bytes = 0;  // when all that is pinned is complete
    uint64_t disk_bytes = 0;    // the size of the file system
  };
  virtual base::Result<Limit> limit() = 0;
  /// Holds for all mounts of the folder in place of their own, until the last of them ends, and evicts down to it.
  /// What is in use stays until it is not. Errors: kInvalid: less than 8 MiB, or than what is pinned; kCacheIo.
  virtual base::Result<Limit> set_limit(base::SizeOrPercent limit) = 0;
};

}  // namespace shardfs::cache
