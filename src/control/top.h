// The table of `shardfs top`: what each mount did between two snapshots.
// Not a terminal: it makes text. Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardfs::control {

/// What of a mount's stats the table shows.
struct TopSample {
  std::string mountpoint;
  std::string source;
  int process_id = 0;  // a new one means that the counters began anew
  uint64_t read_bytes = 0;
  uint64_t passthrough_bytes = 0;
  uint64_t fetched_bytes = 0;
  uint64_t demand_bytes = 0;
  double stalled_s = 0;
  uint64_t parked_reads = 0;
  uint64_t parts = 0;
  uint64_t open_files = 0;
  uint64_t streams = 0;
  uint64_t cache_used_bytes = 0;
  uint64_t cache_limit_bytes = 0;
  uint64_t errors = 0;  // of the store for good, and what readers got
};

/// From the JSON of stats_json; nothing if it is not that.
std::optional<TopSample> top_sample(const std::string& json);

/// One line a mount, in the order of `now`, below a heading. Rates are over `seconds`; a mount that was not there
/// before has none. Lines are cut at `width` columns; 0: never.
std::string top_table(const std::vector<TopSample>& before, const std::vector<TopSample>& now, double seconds,
                      size_t width);

}  // namespace shardfs::control
