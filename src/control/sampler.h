// ThroughputSampler: turns two growing counters into "bytes a second over the last seconds".
// Not a thread: its owner calls sample() about once a second.
// Thread rule: thread-compatible, one caller. It owns nothing but its samples; the registry outlives it.
// Gauges: throughput_fetched_bytes_per_s (from the store), throughput_read_bytes_per_s (answered by the daemon).
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "base/metrics.h"

namespace shardfs::control {

class ThroughputSampler {
 public:
  ThroughputSampler(base::Metrics& metrics, const base::Clock& clock);
  /// The gauges go back to zero: a mount that ended moves nothing.
  ~ThroughputSampler();
  void sample();

 private:
  struct Sample {
    base::SteadyTime at;
    uint64_t fetched_bytes;
    uint64_t read_bytes;
  };
  // Source: long enough to be readable, short enough to show an epoch's start.
  static constexpr std::chrono::seconds kSpan{5};

  base::Metrics& metrics_;
  const base::Clock& clock_;
  std::deque<Sample> samples_;  // oldest first; the first is at least kSpan old, or the very first
};

}  // namespace shardfs::control
