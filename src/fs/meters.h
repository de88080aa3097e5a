// The file system's counters, gauges and histograms, found once so that no operation looks a name up.
// Thread rule: thread-safe. The registry outlives it.
#pragma once

#include <array>
#include <atomic>

#include "base/metrics.h"

namespace shardfs::fs {

struct Meters {
  explicit Meters(base::Metrics& metrics);
  /// Counts one failed operation by its errno's name.
  void count_error(int error);

  // Operations begun.
  base::Counter& lookups;
  base::Counter& forgets;
  base::Counter& getattrs;
  base::Counter& opens;
  base::Counter& reads;
  base::Counter& releases;
  base::Counter& opendirs;
  base::Counter& readdirs;
  base::Counter& statfs;
  base::Counter& getxattrs;

  base::Counter& daemon_opens;
  base::Counter& passthrough_opens;
  base::Counter& failed_backings;  // the kernel refused a complete file
  base::Counter& read_bytes;       // answered by the daemon
  base::Counter& passthrough_open_bytes;

  base::Counter& ahead_small;         // small files fetched before they were opened
  base::Counter& ahead_small_opened;  // and opened after it
  base::Counter& ahead_shards;        // next shards begun before they were opened
  base::Counter& hinted;
  base::Counter& hinted_unknown;

  base::Gauge& open_files;
  base::Gauge& open_directories;
  base::Gauge& backing_ids;
  base::Gauge& parked;

  base::Histogram& read_time;
  base::Histogram& stall_time;  // of parked operations only

 private:
  static constexpr int kErrnos = 134;  // one above EHWPOISON, the last of Linux
  base::Metrics& metrics_;
  std::array<std::atomic<base::Counter*>, kErrnos> errors_{};
};

}  // namespace shardfs::fs
