#include "readahead/policy.h"

#include <doctest/doctest.h>

using namespace shardfs;
using base::ByteRange;
using readahead::Advice;
using readahead::FilePolicy;
using readahead::Pattern;
using readahead::PolicyLimits;

namespace {
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kKiB = 1 << 10;
}  // namespace

TEST_CASE("a read at offset 0 pulls the shard whole, in order, once") {
  FilePolicy policy(128 * kMiB, {});
  policy.on_open();
  Advice first = policy.on_read({0, 128 * kKiB}, false);
  CHECK(first.demand == ByteRange{0, kMiB});
  REQUIRE(first.ahead.size() == 1);
  CHECK(first.ahead[0] == ByteRange{kMiB, 128 * kMiB});
  CHECK(policy.pattern() == Pattern::kWhole);
  Advice next = policy.on_read({128 * kKiB, 256 * kKiB}, true);
  CHECK(next.ahead.empty());
}

TEST_CASE("what was pulled and is gone is pulled again from there") {
  FilePolicy policy(16 * kMiB, {});
  policy.on_open();
  policy.on_read({0, 4096}, false);
  Advice again = policy.on_read({5 * kMiB, 5 * kMiB + 4096}, false);
  CHECK(again.demand == ByteRange{5 * kMiB, 6 * kMiB});
  REQUIRE(again.ahead.size() == 1);
  CHECK(again.ahead[0] == ByteRange{6 * kMiB, 16 * kMiB});
}

TEST_CASE("a footer and the 64 KiB before it cost what they touch") {
  const uint64_t size = 1024 * kMiB + 5;
  FilePolicy policy(size, {});
  policy.on_open();
  uint64_t fetched = 0;
  for (ByteRange read : {ByteRange{size - 8, size}, ByteRange{size - 64 * kKiB, size}}) {
    Advice advice = policy.on_read(read, false);
    CHECK(advice.ahead.empty());
    CHECK(advice.demand.contains(read));
    CHECK(advice.demand.end <= size);
    fetched = std::max(fetched, advice.demand.size());
  }
  CHECK(fetched <= 256 * kKiB);
  CHECK(policy.pattern() == Pattern::kSparse);
}

TEST_CASE("twenty random reads of 64 KiB touch at most 128 KiB each, and stay sparse") {
  FilePolicy policy(128 * kMiB, {});
  policy.on_open();
  uint64_t fetched = 0;
  for (uint64_t i = 1; i <= 20; ++i) {
    const uint64_t begin = (i * 37 % 120 + 3) * kMiB + 64 * kKiB;
    Advice advice = policy.on_read({begin, begin + 64 * kKiB}, false);
    CHECK(advice.ahead.empty());
    fetched += advice.demand.size();
  }
  CHECK(fetched <= 20 * 128 * kKiB);
  CHECK(policy.pattern() == Pattern::kSparse);
}

TEST_CASE("a run that starts in the middle becomes a scan, also when the kernel reorders its reads") {
  FilePolicy policy(64 * kMiB, {});
  policy.on_open();
  const uint64_t start = 20 * kMiB;
  bool pulled = false;
  for (uint64_t i : {0, 1, 3, 2, 5, 4, 6, 7, 9, 8, 10, 11, 13, 12, 14, 15, 16}) {
    const uint64_t begin = start + i * 128 * kKiB;
    for (const ByteRange& range : policy.on_read({begin, begin + 128 * kKiB}, false).ahead)
      pulled = pulled || range.end == 64 * kMiB;
  }
  CHECK(pulled);
  CHECK(policy.pattern() == Pattern::kWhole);
}

TEST_CASE("many short opens of one shard pull it whole") {
  FilePolicy policy(64 * kMiB, {});
  bool whole = false;
  int opens = 0;
  while (!whole && opens < 10) {
    policy.on_open();
    ++opens;
    const uint64_t begin = (7 * opens % 60 + 1) * kMiB;
    whole = !policy.on_read({begin, begin + 4096}, false).ahead.empty();
  }
  CHECK(whole);
  CHECK(opens == 4);
}

TEST_CASE("dense random reads pull the object whole") {
  FilePolicy policy(16 * kMiB, {});
  policy.on_open();
  int reads = 0;
  while (policy.pattern() != Pattern::kWhole && reads < 1000) {
    const uint64_t begin = (reads * 5 % 14 + 1) * kMiB + (reads % 7) * 128 * kKiB;
    policy.on_read({begin, begin + 64 * kKiB}, false);
    ++reads;
  }
  CHECK(reads * 64 * kKiB >= 2 * kMiB);
  CHECK(reads <= 40);
}

TEST_CASE("an object too large to pull whole is read by a window that grows and ends at the object's end") {
  PolicyLimits limits;
  limits.whole_object_bytes = 32 * kMiB;
  limits.window_limit_bytes = 16 * kMiB;
  const uint64_t size = 100 * kMiB + 777;
  FilePolicy policy(size, limits);
  policy.on_open();
  uint64_t wanted_end = 0;
  uint64_t wanted = 0;
  for (uint64_t begin = 0; begin < size; begin += 128 * kKiB) {
    const ByteRange read{begin, std::min(size, begin + 128 * kKiB)};
    for (const ByteRange& range : policy.on_read(read, begin < wanted_end).ahead) {
      CHECK(range.end <= size);
      CHECK(range.begin >= base::align_down(begin, kMiB));
      CHECK(range.end - read.end <= 16 * kMiB + kMiB);
      wanted += range.size();
      wanted_end = std::max(wanted_end, range.end);
    }
  }
  CHECK(wanted_end == size);
  CHECK(wanted <= size + kMiB);
  CHECK(policy.pattern() == Pattern::kSequential);
}
