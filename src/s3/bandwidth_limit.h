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

  /// After bytes were read. urgent: for a reader that waits.
  void took(uint64_t bytes, bool urgent, base::SteadyTime now) {
    if (!limits()) return;
    const auto cost_ns = static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s_));
    charge(paid_until_, cost_ns, now);
    if (urgent) charge(urgent_paid_until_, cost_ns, now);
  }
  /// How long nobody may read. What is urgent waits only for what is urgent.
  std::chrono::nanoseconds debt(bool urgent, base::SteadyTime now) const {
    if (!limits()) return std::chrono::nanoseconds::zero();
    const int64_t paid = (urgent ? urgent_paid_until_ : paid_until_).load(std::memory_order_relaxed);
    return std::chrono::nanoseconds(std::max<int64_t>(0, paid - now.time_since_epoch().count()));
  }

 private:
  // Source: makes up for wake-ups that come late (tens of ms on a machine whose processors are all busy; with 20 ms half
  // of the limit was lost there), and is 2 % over five seconds.
  static constexpr std::chrono::nanoseconds kBurst{100000000};

  static void charge(std::atomic<int64_t>& paid_until, int64_t cost_ns, base::SteadyTime now) {
    const int64_t earliest = now.time_since_epoch().count() - kBurst.count();
    int64_t paid = paid_until.load(std::memory_order_relaxed);
    while (!paid_until.compare_exchange_weak(paid, std::max(paid, earliest) + cost_ns, std::memory_order_relaxed)) {
    }
  }

  const uint64_t bytes_per_s_;
  std::atomic<int64_t> paid_until_{0};  // steady clock, ns
  std::atomic<int64_t> urgent_paid_until_{0};
};

}  // namespace shardfs::s3
