// Shared: what all parts of one Fetcher use. Thread rule: set up before the first file is opened, then constant.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/buffer.h"
#include "fetch/fetcher.h"
#include "fetch/idle_files.h"
#include "fetch/scheduler.h"

namespace shardfs::fetch {

/// What fetch counts; names and units are in docs/metrics.md.
struct FetchMetrics {
  explicit FetchMetrics(base::Metrics& metrics);
  base::Counter &hits, &hit_bytes, &partial_hits, &partial_hit_bytes, &misses, &miss_bytes;
  std::array<base::Counter*, kCauses> received;
  base::Counter &bypassed_bytes, &refetched_blocks;
  base::Gauge &parked_reads, &parts, &memory_bytes, &memory_limit_bytes, &disk_writes;
  base::Histogram& stall;
};

struct Shared {
  Shared(FetchOptions options, FetchEnvironment environment)
      : options(options),
        env(environment),
        metrics(environment.metrics),
        budget(options.memory_bytes),
        // No more is ever mapped than was in use at once: a new buffer is made only when none waits for reuse.
        pool(budget, cache::kBlockBytes, options.memory_bytes / cache::kBlockBytes),
        scheduler(*this) {}

  const FetchOptions options;
  FetchEnvironment env;
  FetchMetrics metrics;
  base::ByteBudget budget;
  base::BufferPool pool;
  Scheduler scheduler;
  IdleFiles idle_files;
  std::function<void(const store::ObjectInfo&)> on_complete;
  std::function<void(const store::ObjectInfo&)> on_changed;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> writing_bytes{0};  // full blocks that wait for the disk

  /// Runs the task on the disk executor; wait_for_jobs returns when none is left.
  void post(base::Task task);
  void wait_for_jobs();

 private:
  std::mutex jobs_mutex_;
  std::condition_variable jobs_done_;
  size_t jobs_ = 0;
};

}  // namespace shardfs::fetch
