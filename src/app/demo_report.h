// What the demo measured: one row an epoch, as a table for people and as JSON.
// Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::app {

struct EpochResult {
  // What the reader measured itself.
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double wall_s = 0;
  double time_to_first_batch_s = 0;
  double mean_input_wait_s = 0;    // a batch
  double input_wait_fraction = 0;  // of wall_s, 0..1
  // What the store counted meanwhile.
  uint64_t gets = 0;
  uint64_t fetched_bytes = 0;

  double samples_per_s() const { return wall_s > 0 ? static_cast<double>(samples) / wall_s : 0; }
  double mb_per_s() const { return wall_s > 0 ? static_cast<double>(bytes) / wall_s / 1e6 : 0; }
  /// The job's own: 1 - fetched / read. Zero when more was fetched than read.
  double hit_ratio() const;
};

/// The first epoch of the list that a reader wrote. Errors: kInvalid.
base::Result<EpochResult> parse_epoch(const std::string& json, const std::string& origin);

struct DemoResult {
  EpochResult cold, warm, local;
  std::string reader;  // "webdataset", or "built-in" with the reason
  uint64_t size_bytes = 0;
  unsigned shards = 0;
  bool passthrough = false;
  std::string passthrough_reason;
};

std::string demo_table(const DemoResult& result);
std::string demo_json(const DemoResult& result);

}  // namespace shardfs::app
