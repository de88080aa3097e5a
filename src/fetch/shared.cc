#include "fetch/shared.h"

namespace shardfs::fetch {

FetchMetrics::FetchMetrics(base::Metrics& m)
    : hits(m.counter("fetch_hits")),
      hit_bytes(m.counter("fetch_hit_bytes")),
      partial_hits(m.counter("fetch_partial_hits")),
      partial_hit_bytes(m.counter("fetch_partial_hit_bytes")),
      misses(m.counter("fetch_misses")),
      miss_bytes(m.counter("fetch_miss_bytes")),
      bypassed_bytes(m.counter("fetch_bypassed_bytes")),
      refetched_blocks(m.counter("fetch_cache_failures")),
      parked_reads(m.gauge("fetch_parked_reads")),
      parts(m.gauge("fetch_parts")),
      memory_bytes(m.gauge("fetch_memory_bytes")),
      memory_limit_bytes(m.gauge("fetch_memory_limit_bytes")),
      disk_writes(m.gauge("fetch_disk_writes")),
      stall(m.histogram("fetch_stall_seconds")) {
  for (const Cause cause : kAllCauses) received[index_of(cause)] = &m.counter("fetch_received_bytes", name_of(cause));
}

void Shared::post(base::Task task) {
  {
    std::lock_guard lock(jobs_mutex_);
    ++jobs_;
  }
  env.disk.post([this, task = std::move(task)]() mutable {
    task();
    task = nullptr;  // what it held goes before the job counts as done
    std::lock_guard lock(jobs_mutex_);
    if (--jobs_ == 0) jobs_done_.notify_all();
  });
}

void Shared::wait_for_jobs() {
  std::unique_lock lock(jobs_mutex_);
  jobs_done_.wait(lock, [&] { return jobs_ == 0; });
}

}  // namespace shardfs::fetch
