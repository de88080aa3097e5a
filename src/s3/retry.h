// How long to wait before the next try. Not whether: error_mapping.h says that.
// Thread rule: thread-compatible.
#pragma once

#include <chrono>
#include <optional>
#include <random>

namespace shardfs::s3 {

class Backoff {
 public:
  using Duration = std::chrono::milliseconds;
  // Source: 100 ms is about three round trips to a store in the region; AWS's SDKs cap at 20 s.
  static constexpr Duration kBase{100};
  static constexpr Duration kCap{20000};
  enum class Pace {
    kGrowing,
    kQuick,  // a reset connection, or a wrong answer, says nothing of the store's load
    kSoon,   // the store answers, but took no more at once: what waits for a slot waits already
  };
  // How long the first waits are at most, and how many such there are. Source: kSoon is less than a round trip; eight
  // refusals of one request while others are answered are not about their number.
  static constexpr Duration kQuick{10};
  static constexpr unsigned kQuickTries = 2;
  static constexpr Duration kSoon{20};
  static constexpr unsigned kSoonTries = 8;

  /// The next wait, full jitter: evenly in [0, min(cap, base * 2^n)], where those that came soon do not count in n.
  /// retry_after is the least it may be. left: until the deadline. Nothing when no further try fits before it.
  std::optional<Duration> next(std::minstd_rand& random, Pace pace, std::optional<Duration> retry_after, Duration left);
  /// After a try that made progress.
  void reset() { tries_ = soon_ = 0; }

 private:
  unsigned tries_ = 0;
  unsigned soon_ = 0;
};

}  // namespace shardfs::s3
