#include "fs/meters.h"

#include <cstring>
#include <string>

namespace shardfs::fs {

Meters::Meters(base::Metrics& metrics)
    : lookups(metrics.counter("fs_operations", "lookup")),
      forgets(metrics.counter("fs_operations", "forget")),
      getattrs(metrics.counter("fs_operations", "getattr")),
      opens(metrics.counter("fs_operations", "open")),
      reads(metrics.counter("fs_operations", "read")),
      releases(metrics.counter("fs_operations", "release")),
      opendirs(metrics.counter("fs_operations", "opendir")),
      readdirs(metrics.counter("fs_operations", "readdir")),
      statfs(metrics.counter("fs_operations", "statfs")),
      getxattrs(metrics.counter("fs_operations", "getxattr")),
      daemon_opens(metrics.counter("fs_opens", "daemon")),
      passthrough_opens(metrics.counter("fs_opens", "passthrough")),
      failed_backings(metrics.counter("fs_failed_backings")),
      read_bytes(metrics.counter("fs_read_bytes")),
      passthrough_open_bytes(metrics.counter("fs_passthrough_open_bytes")),
      ahead_small(metrics.counter("fs_foreseen", "small_files")),
      ahead_small_opened(metrics.counter("fs_foreseen", "small_files_opened")),
      ahead_shards(metrics.counter("fs_foreseen", "next_shards")),
      hinted(metrics.counter("fs_hints", "accepted")),
      hinted_unknown(metrics.counter("fs_hints", "unknown")),
      open_files(metrics.gauge("fs_open_files")),
      open_directories(metrics.gauge("fs_open_directories")),
      backing_ids(metrics.gauge("fs_backing_ids")),
      parked(metrics.gauge("fs_parked_operations")),
      read_time(metrics.histogram("fs_read_seconds")),
      stall_time(metrics.histogram("fs_stall_seconds")),
      metrics_(metrics) {}

void Meters::count_error(int error) {
  if (error <= 0 || error >= kErrnos) error = 0;
  auto& place = errors_[static_cast<size_t>(error)];
  base::Counter* counter = place.load(std::memory_order_acquire);
  if (counter == nullptr) {
    const char* name = error == 0 ? nullptr : strerrorname_np(error);
    counter = &metrics_.counter("fs_errors", name == nullptr ? "other" : name);
    place.store(counter, std::memory_order_release);
  }
  counter->add();
}

}  // namespace shardfs::fs
