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
      stall(m.histogram("fetch_stall_seconds")),
      preempted(m.counter("fetch_preempted_parts")),
      hedged(m.counter("fetch_hedged_parts")),
      hedges_won(m.counter("fetch_hedges_won")),
      given_back_blocks(m.counter("fetch_given_back_blocks")),
      origins(m) {
  for (size_t i = 0; i < kStallReasons; ++i)
    stalled_ns[i] = &m.counter("fetch_stalled_nanoseconds", name_of(static_cast<Stall>(i)));
}

std::string_view name_of(Stall reason) {
  switch (reason) {
    case Stall::kConnection: return "connection";
    case Stall::kMemory: return "memory";
    case Stall::kFirstByte: return "first_byte";
    case Stall::kTransfer: return "transfer";
    case Stall::kOtherProcess: return "other_process";
  }
  return "connection";
}

void Holders::add() {
  const unsigned now = now_.fetch_add(1) + 1;
  unsigned most = most_.load();
  while (most < now && !most_.compare_exchange_weak(most, now)) {
  }
}

std::shared_ptr<base::Buffer> Shared::try_take_buffer(uint64_t object_bytes, uint64_t keep_free_bytes) {
  const bool small = object_bytes <= kSmallBufferBytes;
  base::BufferPool& other = small ? pool : small_pool;
  auto buffer = (small ? small_pool : pool).try_take(keep_free_bytes);
  // What one of them keeps for reuse counts, too, when the other one fills.
  if (buffer && budget.used_bytes() + other.idle_bytes() > options.memory_bytes) other.release_idle();
  return buffer;
}

uint64_t Shared::share_bytes() const {
  const uint64_t ahead = options.memory_bytes - options.memory_bytes / 8;
  return std::max(ahead / std::max(1u, holders.count()), options.part_bytes);
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
