// Fetcher: makes ranges of objects resident and answers readers, from the cache file, from memory, or from the store.
// It plans parts, keeps one flight for each byte, puts demand first and stays within the mount's memory budget.
// It knows no HTTP and no FUSE; the cache may be absent.
// Thread rule: thread-safe. read() never waits for the network: a miss is parked and answered by a store thread.
// Lock order: Scheduler or a Part's turn before SourceFile; none is held across I/O, store calls or callbacks.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/byte_range.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "cache/cache.h"
#include "fetch/cause.h"
#include "fetch/file_state.h"
#include "readahead/policy.h"
#include "store/object.h"
#include "store/object_store.h"

namespace shardfs::fetch {

struct FetchOptions {
  uint64_t part_bytes = 4 << 20;      // the bytes of one GET, at most. Source: docs/decisions/0004
  uint64_t memory_bytes = 256 << 20;  // buffers of the mount
  unsigned connections = 64;          // GETs at once
  std::chrono::milliseconds demand_deadline{300000};
  // No answer is asked for a second time before. Source: docs/decisions/0009
  std::chrono::milliseconds late_after{200};
  readahead::PolicyLimits readahead;
};

struct FetchEnvironment {
  store::ObjectStore& store;
  cache::Cache* cache = nullptr;  // may be null
  base::Executor& disk;           // runs writes of the cache
  base::Timer& timer;
  const base::Clock& clock;
  base::Metrics& metrics;
};

/// The bytes of one read, in order; valid only within the callback.
using Pieces = std::span<const iovec>;
/// Errors: the store's; kCancelled; kTimeout. Fewer bytes than asked for only at the end of the object.
using ReadDone = std::function<void(base::Result<Pieces>)>;

/// A parked read. Cancel answers it at once with kCancelled, if it is still parked; any thread; may be repeated.
class ParkedRead {
 public:
  virtual ~ParkedRead() = default;
  virtual void cancel() = 0;
};

class Scheduler;

/// What is held of an object in memory comes in blocks; the one of an object up to this size is no larger. Source: most
/// images of a folder, and a sixteenth of a huge page.
inline constexpr uint64_t kSmallBufferBytes = 128 << 10;
/// Memory for all of an object.
constexpr uint64_t buffers_of(uint64_t object_bytes) {
  return object_bytes <= kSmallBufferBytes ? kSmallBufferBytes : base::align_up(object_bytes, cache::kBlockBytes);
}

/// One ObjectId, shared by all that have it open.
class SourceFile {
 public:
  virtual ~SourceFile() = default;
  virtual const store::ObjectInfo& info() const = 0;
  /// An open or close of a handle, for the policy and for what is kept. Balanced.
  virtual void opened(uint32_t process) = 0;
  virtual void closed() = 0;
  /// `done` may run before it returns (then the result is null: nothing to cancel).
  virtual std::shared_ptr<ParkedRead> read(base::ByteRange range, uint32_t process, ReadDone done) = 0;
  /// Wanted, not waited for. `done` runs exactly once, under no lock, on any thread and perhaps before this returns,
  /// when nothing of the range is wanted or under way any more: resident, refused, failed, cancelled, or the mount
  /// ends.
  virtual void prefetch(base::ByteRange range, Cause cause, std::function<void()> done = {}) = 0;
  /// Drops what only prefetch wanted (small files, next shard, warm) and no reader waits for; parts of it under way are
  /// cancelled.
  virtual void cancel_prefetch() = 0;
  /// The complete, verified cache file and a pin on it, if the kernel may read it by itself now; else nulls.
  struct Backing {
    std::shared_ptr<cache::CacheFile> file;
    std::unique_ptr<cache::Pin> pin;
  };
  virtual Backing backing() = 0;
  /// The bytes of it that are resident in the cache.
  virtual uint64_t cached_bytes() = 0;
  /// Whether the cache has it, or a part of it: cheap, for small files.
  virtual bool seems_cached() = 0;
  /// "complete", "reading: whole, 12 of 32 blocks, 4 parts under way, 1 read parked, 1 stream, next at 131072", for the
  /// xattr user.shardfs.state.
  virtual std::string state() = 0;
};

/// Outlives the files that it opened.
class Fetcher {
 public:
  virtual ~Fetcher() = default;
  static std::unique_ptr<Fetcher> make(FetchOptions options, FetchEnvironment environment);
  /// One instance an ObjectId while anybody holds it.
  virtual std::shared_ptr<SourceFile> open(const store::ObjectInfo& info) = 0;
  /// Some that are open or under way, no more than `most`.
  virtual std::vector<FileState> in_use(size_t most) = 0;
  /// Cache files that nobody reads any more are let go of, so that they can be evicted.
  virtual void release_idle() = 0;
  /// Called when a file became complete and verified (on a disk thread). Set once, before the first open.
  virtual void on_complete(std::function<void(const store::ObjectInfo&)> hook) = 0;
  /// Called once in the life of a file's handles, when a reader that has gone through a quarter of it in order has 64
  /// MiB of it left, or less: it will want another one soon. Not for what the kernel reads by itself. Set once, before
  /// the first open.
  virtual void on_scan(std::function<void(const store::ObjectInfo&)> hook) = 0;
  /// Called when the store says that an object has another version now, or is gone.
  virtual void on_changed(std::function<void(const store::ObjectInfo&)> hook) = 0;
  /// Cancels everything under way, answers every parked read with kCancelled, returns when all transfers have ended and
  /// what had arrived is written. After it the gauges fetch_parked_reads, fetch_parts and fetch_memory_bytes are zero.
  virtual void shut_down() = 0;
};

}  // namespace shardfs::fetch
