#include "s3/retry.h"

#include <algorithm>

namespace shardfs::s3 {

std::optional<Backoff::Duration> Backoff::next(std::minstd_rand& random, Pace pace, std::optional<Duration> retry_after,
                                               Duration left) {
  if (left <= Duration::zero() || (retry_after && *retry_after >= left)) return std::nullopt;
  Duration most = kSoon;
  if (pace != Pace::kSoon || soon_++ >= kSoonTries) {
    const unsigned step = tries_++;
    most = std::min(kCap, kBase * (1 << std::min(step, 10u)));
    if (pace == Pace::kQuick && step < kQuickTries) most = kQuick;
  }
  Duration wait{std::uniform_int_distribution<Duration::rep>(0, most.count())(random)};
  if (retry_after) wait = std::max(wait, *retry_after);
  // One more try shall fit before the deadline, unless next to nothing is left.
  if (wait >= left) {
    if (left <= kBase) return std::nullopt;
    wait = std::max(left / 2, retry_after.value_or(Duration::zero()));
  }
  return wait;
}

}  // namespace shardfs::s3
