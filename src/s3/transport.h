// Transport: the event loops of one store, and the admission and bandwidth limits that they share.
// Not a protocol: what is sent is the operations' matter (operation.h).
// Thread rule: thread-safe, but for Lane::running. It owns the loops' threads.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/metrics.h"
#include "s3/admission.h"
#include "s3/event_loop.h"
#include "s3/settings.h"

namespace shardfs::s3 {

class Operation;

/// A loop and the operations that live on it, from their start to their end.
struct Lane {
  std::unordered_set<Operation*> running;  // the loop's thread only
  std::atomic<unsigned> load{0};           // operations given to it and not ended
  std::unique_ptr<EventLoop> loop;         // last: its thread ends before the rest goes
};

class Transport {
 public:
  /// clock and metrics outlive it. Errors: kNoMemory.
  static base::Result<std::unique_ptr<Transport>> make(const Settings& settings, base::Clock& clock,
                                                       base::Metrics& metrics);
  /// The lane with the least load.
  Lane& pick_lane();
  Admission& admission() { return admission_; }
  const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }

 private:
  Transport(const Settings& settings, base::Metrics& metrics);

  TransportOptions options_;
  BandwidthLimit bandwidth_;
  Admission admission_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace shardfs::s3
