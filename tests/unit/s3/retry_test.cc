#include "s3/retry.h"

#include <doctest/doctest.h>

#include "s3/bandwidth_limit.h"

namespace shardfs::s3 {
namespace {

using namespace std::chrono_literals;

TEST_CASE("waits grow to the cap, with full jitter") {
  std::minstd_rand random(7);
  Backoff backoff;
  auto longest = 0ms;
  for (int i = 0; i < 40; ++i) {
    const auto wait = backoff.next(random, Backoff::Pace::kGrowing, std::nullopt, 24h);
    REQUIRE(wait.has_value());
    CHECK(*wait <= Backoff::kBase * (1 << std::min(i, 10)));
    CHECK(*wait <= Backoff::kCap);
    longest = std::max(longest, *wait);
  }
  CHECK(longest > 10s);
  backoff.reset();
  CHECK(*backoff.next(random, Backoff::Pace::kGrowing, std::nullopt, 24h) <= Backoff::kBase);
}

TEST_CASE("a reset connection is tried again quickly, at first") {
  std::minstd_rand random(7);
  Backoff backoff;
  for (unsigned i = 0; i < Backoff::kQuickTries; ++i) {
    CHECK(*backoff.next(random, Backoff::Pace::kQuick, std::nullopt, 1h) <= Backoff::kQuick);
  }
}

TEST_CASE("one that was only too many comes again soon, but not for ever") {
  std::minstd_rand random(7);
  Backoff backoff;
  for (unsigned i = 0; i < Backoff::kSoonTries; ++i) {
    CHECK(*backoff.next(random, Backoff::Pace::kSoon, std::nullopt, 1h) <= Backoff::kSoon);
  }
  auto longest = 0ms;
  for (int i = 0; i < 12; ++i) {
    const auto wait = *backoff.next(random, Backoff::Pace::kSoon, std::nullopt, 1h);
    CHECK(wait <= Backoff::kBase * (1 << std::min(i, 10)));
    longest = std::max(longest, wait);
  }
  CHECK(longest > 1s);
  CHECK(*backoff.next(random, Backoff::Pace::kSoon, 5s, 1h) >= 5s);
}

TEST_CASE("Retry-After is the least, the deadline the most") {
  std::minstd_rand random(7);
  Backoff backoff;
  CHECK(*backoff.next(random, Backoff::Pace::kGrowing, 5s, 1h) >= 5s);
  CHECK_FALSE(backoff.next(random, Backoff::Pace::kGrowing, 5s, 4s).has_value());
  CHECK_FALSE(backoff.next(random, Backoff::Pace::kGrowing, std::nullopt, 0ms).has_value());
  for (int i = 0; i < 50; ++i) {
    if (const auto wait = backoff.next(random, Backoff::Pace::kGrowing, std::nullopt, 300ms)) CHECK(*wait < 300ms);
  }
}

TEST_CASE("the bandwidth limit is a debt in time") {
  BandwidthLimit limit(1000000);
  const base::SteadyTime start{1h};
  CHECK(limit.debt(false, start) == 0ns);
  limit.took(1000000, false, start);  // a second's worth, less the burst of 100 ms
  CHECK(limit.debt(false, start) == 900ms);
  CHECK(limit.debt(false, start + 900ms) == 0ns);
  for (int i = 0; i < 100; ++i) limit.took(10000, false, start + 900ms);
  CHECK(limit.debt(false, start + 900ms) == 1s);
  // What is urgent does not wait for the rest, but the rest waits for it, and it for itself.
  CHECK(limit.debt(true, start + 900ms) == 0ns);
  limit.took(500000, true, start + 900ms);
  CHECK(limit.debt(true, start + 900ms) == 400ms);
  CHECK(limit.debt(false, start + 900ms) == 1500ms);
  BandwidthLimit none(0);
  none.took(1u << 30, true, start);
  CHECK(none.debt(true, start) == 0ns);
}

}  // namespace
}  // namespace shardfs::s3
