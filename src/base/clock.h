// Clock: the seam through which code that must be testable reads the time.
// Thread rule: thread-safe.
#pragma once

#include <atomic>
#include <chrono>

namespace shardfs::base {

using SteadyTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime now() const = 0;
  virtual WallTime wall_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  SteadyTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
};

/// For tests: stands still until it is moved.
class ManualClock final : public Clock {
 public:
  SteadyTime now() const override { return SteadyTime(std::chrono::nanoseconds(ticks_.load())); }
  WallTime wall_now() const override {
    return WallTime(std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(ticks_.load())) +
                    std::chrono::hours(24 * 365 * 50));
  }
  void advance(std::chrono::nanoseconds by) { ticks_ += by.count(); }

 private:
  std::atomic<int64_t> ticks_{int64_t{3600} * 1000000000};
};

}  // namespace shardfs::base
