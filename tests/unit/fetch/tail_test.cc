#include "fetch/tail.h"

#include <doctest/doctest.h>

using shardfs::fetch::Tail;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST_CASE("late is twice the p95 and a little, at least 200 ms, and nothing is late before 20 answers") {
  Tail tail;
  for (int i = 0; i < 19; ++i) tail.add_first_byte(milliseconds(1));
  CHECK_FALSE(tail.limits());
  tail.add_first_byte(milliseconds(1));
  REQUIRE(tail.limits());
  CHECK(tail.limits()->silence == milliseconds(200));
  for (int i = 0; i < 200; ++i) tail.add_first_byte(milliseconds(100));
  CHECK(tail.limits()->silence == milliseconds(210));
}

TEST_CASE("a few late answers do not move it, many do, and the last 200 count") {
  Tail tail;
  for (int i = 0; i < 200; ++i) tail.add_first_byte(i % 25 == 0 ? milliseconds(2000) : milliseconds(30));
  CHECK(tail.limits()->silence == milliseconds(200));
  for (int i = 0; i < 200; ++i) tail.add_first_byte(i % 10 == 0 ? milliseconds(2000) : milliseconds(30));
  CHECK(tail.limits()->silence == milliseconds(4010));
  for (int i = 0; i < 200; ++i) tail.add_first_byte(milliseconds(30));
  CHECK(tail.limits()->silence == milliseconds(200));
}

TEST_CASE("bodies count by the MiB, short ones not at all") {
  Tail tail;
  for (int i = 0; i < 20; ++i) tail.add_first_byte(milliseconds(30));
  tail.add_body(4096, milliseconds(900));
  CHECK(tail.limits()->per_mebibyte == nanoseconds(0));
  tail.add_body(4 << 20, milliseconds(40));
  CHECK(tail.limits()->per_mebibyte == milliseconds(20));
}
