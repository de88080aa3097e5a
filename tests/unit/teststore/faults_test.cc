#include "teststore/faults.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace shardfs::teststore {
namespace {

Request get(std::string key, std::string bucket = "b") {
  Request request;
  request.method = "GET";
  request.kind = Kind::kGet;
  request.bucket = std::move(bucket);
  request.key = std::move(key);
  return request;
}

TEST_CASE("globs") {
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("a*c", "abbc"));
  CHECK(glob_matches("*.tar", "d/x.tar.tar"));
  CHECK(glob_matches("a?c", "a/c"));
  CHECK(glob_matches("a\\*c", "a*c"));
  CHECK_FALSE(glob_matches("a\\*c", "abc"));
  CHECK_FALSE(glob_matches("a*c", "abcd"));
  CHECK_FALSE(glob_matches("?", ""));
  CHECK(glob_matches("*a*b*", "xxaxxbxx"));
  CHECK_FALSE(glob_matches("", "a"));
}

TEST_CASE("a match looks at every field") {
  Request request = get("train/1.tar");
  request.headers = {{"If-Match", "x"}, {"Authorization", "AWS4-HMAC-SHA256 Credential=KEY/1/r/s3/aws4_request, x"}};
  const AskedRange asked{100, 200};
  CHECK(Match{}.fits(request, asked));
  CHECK(Match{.method = "GET", .kind = Kind::kGet, .bucket = "b", .key = "train/*"}.fits(request, asked));
  CHECK_FALSE(Match{.method = "HEAD"}.fits(request, asked));
  CHECK_FALSE(Match{.kind = Kind::kList}.fits(request, asked));
  CHECK_FALSE(Match{.bucket = "c"}.fits(request, asked));
  CHECK_FALSE(Match{.key = "val/*"}.fits(request, asked));
  CHECK(Match{.range_begin_at_least = 100}.fits(request, asked));
  CHECK_FALSE(Match{.range_begin_at_least = 101}.fits(request, asked));
  CHECK(Match{.access_key = "KEY"}.fits(request, asked));
  CHECK_FALSE(Match{.access_key = "OTHER"}.fits(request, asked));
  CHECK(Match{.header = "if-match"}.fits(request, asked));
  CHECK_FALSE(Match{.header = "range"}.fits(request, asked));
}

TEST_CASE("skip, times and one fault a request, but all delays") {
  Faults faults;
  Fault first;
  first.match.key = "a";
  first.skip = 1;
  first.times = 2;
  Fault second;
  second.action = Action::kReset;
  second.times = -1;
  Fault delay;
  delay.action = Action::kDelay;
  delay.times = -1;
  const uint64_t first_id = faults.add(first);
  const uint64_t second_id = faults.add(second);
  const uint64_t delay_id = faults.add(delay);
  std::vector<Action> seen;
  for (int i = 0; i < 5; ++i) {
    const auto taken = faults.take(get("a"), {});
    REQUIRE(taken.size() == 2);
    seen.push_back(taken[0].action);
    CHECK(taken[1].action == Action::kDelay);
  }
  CHECK(seen == std::vector{Action::kReset, Action::kStatus, Action::kStatus, Action::kReset, Action::kReset});
  CHECK(faults.fired(first_id) == 2);
  CHECK(faults.fired(second_id) == 3);
  CHECK(faults.fired(delay_id) == 5);
  faults.clear();
  CHECK(faults.take(get("a"), {}).empty());
  CHECK(faults.fired(first_id) == 2);
}

TEST_CASE("a fault that needs others under way") {
  Faults faults;
  Fault fault;
  fault.times = -1;
  fault.concurrent_above = 2;
  const uint64_t id = faults.add(fault);
  CHECK(faults.take(get("a"), {}, 1).empty());
  CHECK(faults.take(get("a"), {}, 2).empty());
  CHECK(faults.take(get("a"), {}, 3).size() == 1);
  CHECK(faults.fired(id) == 1);
}

TEST_CASE("a probability comes out near itself and the same again") {
  const auto run = [](uint64_t seed) {
    Faults faults;
    Fault fault;
    fault.times = -1;
    fault.probability = 0.3;
    fault.seed = seed;
    faults.add(fault);
    std::string pattern;
    for (int i = 0; i < 1000; ++i) pattern += faults.take(get("a"), {}).empty() ? '.' : 'X';
    return pattern;
  };
  const std::string pattern = run(1);
  CHECK(pattern == run(1));
  CHECK(pattern != run(2));
  const auto hits = std::count(pattern.begin(), pattern.end(), 'X');
  CHECK(hits > 230);
  CHECK(hits < 370);
}

TEST_CASE("every action has a name of its own") {
  for (size_t i = 0; i <= static_cast<size_t>(Action::kHeaders); ++i) {
    CHECK(action_named(name_of(static_cast<Action>(i))) == static_cast<Action>(i));
  }
  CHECK_FALSE(action_named("no such"));
}

}  // namespace
}  // namespace shardfs::teststore
