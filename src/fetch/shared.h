// Shared: what all parts of one Fetcher use. Thread rule: set up before the first file is opened, then constant.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string_view>

#include "base/buffer.h"
#include "fetch/fetcher.h"
#include "fetch/idle_files.h"
#include "fetch/origins.h"
#include "fetch/scheduler.h"
#include "fetch/stragglers.h"

namespace shardfs::fetch {

/// What a parked read waited for.
enum class Stall : uint8_t { kConnection, kMemory, kFirstByte, kTransfer, kOtherProcess };
inline constexpr size_t kStallReasons = 5;
std::string_view name_of(Stall reason);

/// What fetch counts; names and units are in docs/metrics.md.
struct FetchMetrics {
  explicit FetchMetrics(base::Metrics& metrics);
  base::Counter &hits, &hit_bytes, &partial_hits, &partial_hit_bytes, &misses, &miss_bytes;
  base::Counter &bypassed_bytes, &refetched_blocks;
  base::Gauge &parked_reads, &parts, &memory_bytes, &memory_limit_bytes, &disk_writes;
  base::Histogram& stall;
  base::Counter &preempted, &hedged, &hedges_won, &given_back_blocks;
  std::array<base::Counter*, kStallReasons> stalled_ns;
  OriginMetrics origins;
};

/// How many open files hold memory that can't be dropped without a loss, or wait for some: they share it.
/// Thread rule: thread-safe.
class Holders {
 public:
  void add();
  void remove() { now_.fetch_sub(1); }
  /// Every second: a file that paused for less still has its share.
  void tick() { before_ = most_.exchange(now_.load()); }
  unsigned count() const { return std::max({now_.load(), most_.load(), before_.load()}); }

 private:
  std::atomic<unsigned> now_{0}, most_{0}, before_{0};
};

struct Shared {
  Shared(FetchOptions options, FetchEnvironment environment)
      : options(options),
        env(environment),
        metrics(environment.metrics),
        budget(options.memory_bytes),
        // No more is ever mapped than was in use at once: a new buffer is made only when none waits for reuse.
        pool(budget, cache::kBlockBytes, options.memory_bytes / cache::kBlockBytes),
        small_pool(budget, kSmallBufferBytes, options.memory_bytes / kSmallBufferBytes),
        scheduler(*this),
        stragglers(*this) {}

  const FetchOptions options;
  FetchEnvironment env;
  FetchMetrics metrics;
  base::ByteBudget budget;
  base::BufferPool pool;
  base::BufferPool small_pool;
  Scheduler scheduler;
  Stragglers stragglers;
  Holders holders;
  UnreadFiles unread_files;
  IdleFiles idle_files;
  std::function<void(const store::ObjectInfo&)> on_complete;
  std::function<void(const store::ObjectInfo&)> on_scan;
  std::function<void(const store::ObjectInfo&)> on_changed;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> writing_bytes{0};  // full blocks that wait for the disk

  /// For a block of an object of this size. Null: see BufferPool::try_take.
  std::shared_ptr<base::Buffer> try_take_buffer(uint64_t object_bytes, uint64_t keep_free_bytes);
  /// What one file may hold of the memory that read-ahead fills.
  uint64_t share_bytes() const;
  /// Runs the task on the disk executor; wait_for_jobs returns when none is left.
  void post(base::Task task);
  void wait_for_jobs();

 private:
  std::mutex jobs_mutex_;
  std::condition_variable jobs_done_;
  size_t jobs_ = 0;
};

}  // namespace shardfs::fetch
