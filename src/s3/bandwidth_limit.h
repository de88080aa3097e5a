// BandwidthLimit: one limit of received bytes a second for all transfers of a store.
// Not a scheduler: the loops pause their transfers while there is a debt, and resume them in turns.
// Thread rule: thread-safe, lock-free.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace shardfs::s3 {

class BandwidthLimit {
 public:
  /// 0: none.
  explicit BandwidthLimit(uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  bool limits() const { return bytes_per_s_ != 0; }
  uint64_t bytes_per_s() const { return bytes_per_s_; }

  /// After bytes were read.
  void took(uint64_t bytes, base::SteadyTime now) {
    if (!limits()) return;
    const auto cost_ns = static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s_));
    const int64_t earliest = now.time_since_epoch().count() - kBurst.count();
    int64_t paid = paid_until_.load(std::memory_order_relaxed);
    while (!paid_until_.compare_exchange_weak(paid, std::max(paid, earliest) + cost_ns, std::memory_order_relaxed)) {
    }
  }
  /// How long nobody may read.
  std::chrono::nanoseconds debt(base::SteadyTime now) const {
    if (!limits()) return std::chrono::nanoseconds::zero();
    return std::chrono::nanoseconds(
        std::max<int64_t>(0, paid_until_.load(std::memory_order_relaxed) - now.time_since_epoch().count()));
  }

 private:
  // Source: makes up for wake-ups that come late (a few ms), and is nothing over a transfer of a second.
  static constexpr std::chrono::nanoseconds kBurst{20000000};
  const uint64_t bytes_per_s_;
  std::atomic<int64_t> paid_until_{0};  // steady clock, ns
};

}  // namespace shardfs::s3
