#include "readahead/range_set.h"

#include <doctest/doctest.h>

#include <random>

using namespace shardfs;
using base::ByteRange;

TEST_CASE("a set of ranges says what a set of bytes would") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    readahead::RangeSet set;
    std::vector<bool> bytes(64);
    for (int step = 0; step < 100; ++step) {
      const uint64_t a = random() % 65, b = random() % 65;
      const ByteRange range{std::min(a, b), std::max(a, b)};
      const bool add = random() % 2;
      add ? set.add(range) : set.remove(range);
      for (uint64_t i = range.begin; i < range.end; ++i) bytes[i] = add;
      const uint64_t c = random() % 65, d = random() % 65;
      const ByteRange asked{std::min(c, d), std::max(c, d)};
      uint64_t inside = 0;
      for (uint64_t i = asked.begin; i < asked.end; ++i) inside += bytes[i];
      if (!asked.empty()) {
        CHECK(set.contains(asked) == (inside == asked.size()));
        CHECK(set.overlaps(asked) == (inside > 0));
      }
      uint64_t missing = 0, last = 0;
      for (const auto& piece : set.missing_in(asked)) {
        CHECK_FALSE(piece.empty());
        CHECK(asked.contains(piece));
        CHECK((missing == 0 || piece.begin > last));
        for (uint64_t i = piece.begin; i < piece.end; ++i) CHECK_FALSE(bytes[i]);
        missing += piece.size();
        last = piece.end;
      }
      CHECK(missing == asked.size() - inside);
    }
  }
}
