// Freshness: how old a fact may be, with lifetimes that may be endless (duration::max).
// Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace shardfs::tree {

using Lifetime = std::chrono::milliseconds;

/// What is left of the lifetime of a fact from `at`; zero when it is over, Lifetime::max() when it never is.
inline Lifetime time_left(base::SteadyTime at, base::SteadyTime now, Lifetime lifetime) {
  // Past this the sum would not fit the clock's nanoseconds.
  constexpr Lifetime kEndless = std::chrono::hours(24 * 365 * 100);
  if (lifetime >= kEndless) return Lifetime::max();
  if (now - at >= lifetime) return Lifetime::zero();
  return std::max(Lifetime(1), std::chrono::floor<Lifetime>(at + lifetime - now));
}

inline bool is_fresh(base::SteadyTime at, base::SteadyTime now, Lifetime lifetime) {
  return time_left(at, now, lifetime) > Lifetime::zero();
}

}  // namespace shardfs::tree
