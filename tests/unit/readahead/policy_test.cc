// The rules one by one.
#include "readahead/policy.h"

#include "replay.h"

using namespace shardfs;
using base::ByteRange;
using readahead::Pattern;
using readahead::PolicyLimits;
using test::kKiB;
using test::kMiB;
using test::kPage;
using test::kRead;
using test::Replay;

TEST_CASE("a scan from offset 0: a block, 16 MiB, 32 MiB, the rest, each byte once") {
  Replay replay(1024 * kMiB);
  auto first = replay.open().read(0, kRead);
  CHECK(first.demand == ByteRange{0, kMiB});
  REQUIRE(first.ahead.size() == 1);
  CHECK(first.ahead[0] == ByteRange{kMiB, 16 * kMiB});
  auto second = replay.read(kRead, kRead);
  REQUIRE(second.ahead.size() == 1);
  CHECK(second.ahead[0] == ByteRange{16 * kMiB, 32 * kMiB});
  auto third = replay.read(2 * kRead, kRead);
  REQUIRE(third.ahead.size() == 1);
  CHECK(third.ahead[0] == ByteRange{32 * kMiB, 64 * kMiB});
  CHECK(replay.pattern() == Pattern::kSequential);
  replay.forward(3 * kRead, 2 * kMiB - kRead);
  CHECK(replay.fetched() == 64 * kMiB);
  auto scan = replay.read(2 * kMiB - kRead, kRead);
  REQUIRE(scan.ahead.size() == 1);
  CHECK(scan.ahead[0] == ByteRange{64 * kMiB, 1024 * kMiB});
  CHECK(replay.pattern() == Pattern::kWhole);
  replay.forward(2 * kMiB, 1024 * kMiB);
  CHECK(replay.fetched() == replay.size());
  CHECK(replay.waits() == 1);
  CHECK(replay.dropped() == 0);
}

TEST_CASE("a scan whose first bytes came with the lookup, or whose first window was predicted, never waits") {
  for (const uint64_t prefetched : {kRead, 16 * kMiB}) {
    Replay replay(128 * kMiB);
    replay.prefetched({0, prefetched}).open().forward(0, 128 * kMiB);
    CHECK(replay.waits() == 0);
    CHECK(replay.fetched() == replay.size());
  }
}

TEST_CASE("reads of everything that arrive out of order cost the object once") {
  for (const uint64_t size :
       {uint64_t{1}, uint64_t{4096}, uint64_t{4097}, kMiB, kMiB + 1, 8 * kMiB, 25 * kMiB + 777, 128 * kMiB}) {
    for (const uint64_t step : {kRead, kMiB}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(size);
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        Replay replay(size);
        replay.open().shuffled(0, size, random, step);
        CHECK(replay.fetched() == size);
        CHECK(replay.waits() <= 16);  // those of the first 2 MiB
        CHECK(replay.dropped() == 0);
      }
    }
  }
}

TEST_CASE("reads at and past the end, and none") {
  Replay replay(5000);
  replay.open();
  CHECK(replay.read(4096, 8192).demand == ByteRange{0, 5000});
  replay.read(8192, 4096);
  replay.read(5000, 1);
  replay.read(100, 0);
  CHECK(replay.fetched() == 5000);
  CHECK(replay.waits() == 1);
}

TEST_CASE("file(1): one page at 0 of a large object, then elsewhere: what was predicted is dropped") {
  Replay replay(1024 * kMiB);
  replay.open().read(0, 16 * kKiB);
  CHECK(replay.fetched() == 16 * kMiB);
  auto elsewhere = replay.read(700 * kMiB, kPage);
  CHECK(elsewhere.drop == ByteRange{kMiB, 16 * kMiB});
  CHECK(elsewhere.ahead.empty());
  CHECK(replay.fetched() == kMiB + 128 * kKiB);
}

TEST_CASE("another process that begins elsewhere drops nothing") {
  Replay replay(1024 * kMiB);
  replay.open().read(0, kRead);
  replay.open();
  CHECK(replay.read(700 * kMiB, kRead).drop.empty());
  CHECK(replay.fetched() == 16 * kMiB + 128 * kKiB);
}

TEST_CASE("a window of the reader that has gone elsewhere is dropped, but not what others want") {
  Replay replay(1024 * kMiB);
  replay.open().read(900 * kMiB, kRead);
  replay.forward(100 * kMiB, 104 * kMiB);
  const uint64_t before = replay.fetched();
  auto jump = replay.read(110 * kMiB, kRead);  // within the window: what lies before it
  CHECK(jump.drop.begin == 104 * kMiB);
  CHECK(jump.drop.end == 110 * kMiB);
  CHECK(replay.fetched() == before - 6 * kMiB);
  replay.forward(110 * kMiB + kRead, 114 * kMiB);
  CHECK(replay.waits() <= 5);
}

TEST_CASE("a run that begins in the middle: what it touches, then windows that double, to the end") {
  Replay replay(128 * kMiB);
  replay.open();
  const uint64_t start = 20 * kMiB;
  CHECK(replay.read(start, kRead).ahead.empty());
  CHECK(replay.fetched() == kRead);
  auto second = replay.read(start + kRead, kRead);
  REQUIRE(second.ahead.size() == 1);
  CHECK(second.ahead[0] == ByteRange{start + 2 * kRead, start + kMiB});
  std::vector<uint64_t> ends;
  for (uint64_t at = start + 2 * kRead; at < 128 * kMiB; at += kRead) {
    const auto advice = replay.read(at, kRead);
    for (const auto& range : advice.ahead) ends.push_back((range.end - start) / kMiB);
  }
  CHECK(ends == std::vector<uint64_t>{2, 3, 18, 27, 41, 62, 93, 108});
  CHECK(replay.fetched() == 108 * kMiB);
  CHECK(replay.waits() == 2);
  CHECK(replay.pattern() == Pattern::kSequential);
}

TEST_CASE("a run is seen through reordering, and through small skips either way") {
  std::mt19937_64 random(5);
  Replay reordered(128 * kMiB);
  reordered.open().read(90 * kMiB, kRead);
  reordered.shuffled(20 * kMiB, 60 * kMiB, random);
  CHECK(reordered.waits() <= 1 + 16);
  CHECK(reordered.fetched() <= 108 * kMiB);
  Replay skipping(128 * kMiB);
  skipping.open().read(90 * kMiB, kRead);
  for (uint64_t at = 20 * kMiB; at < 60 * kMiB; at += 500 * kKiB + 600 * kKiB) skipping.forward(at, at + 500 * kKiB);
  CHECK(skipping.waits() <= 4);
}

TEST_CASE("sixteen streams in one object, interleaved: each waits at its begin only") {
  for (const uint64_t streams : {uint64_t{4}, uint64_t{10}, uint64_t{16}}) {
    CAPTURE(streams);
    Replay replay(1024 * kMiB);
    replay.open().read(1020 * kMiB, kRead);
    const uint64_t apart = 1000 * kMiB / streams;
    for (uint64_t at = 0; at < 32 * kMiB; at += kRead)
      for (uint64_t i = 0; i < streams; ++i) replay.read(i * apart + 8 * kMiB + at, kRead);
    CHECK(replay.waits() == 1 + 2 * static_cast<int>(streams));
    CHECK(replay.policy().streams().size() == streams);
    CHECK(replay.dropped() == 0);
    CHECK(replay.fetched() <= streams * 128 * kMiB);
  }
}

TEST_CASE("random reads beside a run do not push it out") {
  std::mt19937_64 random(7);
  PolicyLimits limits;
  limits.whole_object_bytes = 0;
  Replay replay(4096 * kMiB, limits);
  replay.open().read(4000 * kMiB, kRead);
  int waits = 0;
  for (uint64_t at = 1000 * kMiB; at < 1064 * kMiB; at += kRead) {
    const int before = replay.waits();
    replay.read(at, kRead);
    waits += replay.waits() - before;
    for (int i = 0; i < 3; ++i) replay.read(random() % (800 * kMiB) / kPage * kPage, kPage);
  }
  CHECK(waits == 2);
}

TEST_CASE("twenty random reads of a cold shard cost 128 KiB each") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Replay replay(128 * kMiB);
    replay.open();
    for (int i = 0; i < 20; ++i) replay.read(random() % (128 * kMiB - 68 * kKiB) / kPage * kPage, 68 * kKiB);
    CHECK(replay.fetched() <= 3'000'000);
    CHECK(replay.pattern() == Pattern::kSparse);
  }
}

TEST_CASE("an object too large to pull whole: windows that double up to the limit, to the end, each byte once") {
  PolicyLimits limits;
  limits.whole_object_bytes = 64 * kMiB;
  limits.memory_bytes = 128 * kMiB;
  Replay replay(300 * kMiB + 777, limits);
  replay.open();
  for (uint64_t at = 0; at < replay.size(); at += kRead) {
    for (const auto& range : replay.read(at, kRead).ahead) CHECK(range.end <= at + kRead + 32 * kMiB + kMiB / 2);
  }
  CHECK(replay.fetched() == replay.size());
  CHECK(replay.waits() == 1);
  CHECK(replay.pattern() == Pattern::kSequential);
}

TEST_CASE("no window is above a quarter of the memory") {
  PolicyLimits limits;
  limits.memory_bytes = 16 * kMiB;
  Replay replay(1024 * kMiB, limits);
  replay.open().read(0, kRead);
  CHECK(replay.fetched() == 4 * kMiB);
}

TEST_CASE("what was pulled and is gone is pulled again as the reader goes on") {
  Replay replay(128 * kMiB);
  replay.open().forward(0, 20 * kMiB);
  CHECK(replay.fetched() == replay.size());
  replay.lose({40 * kMiB, 100 * kMiB});
  replay.forward(20 * kMiB, 128 * kMiB);
  CHECK(replay.fetched() == replay.size());
  CHECK(replay.waits() == 2);
}

TEST_CASE("an object whose cache file was lost between two scans is pulled whole again") {
  Replay replay(128 * kMiB);
  replay.open().forward(0, 128 * kMiB);
  replay.lose({0, 128 * kMiB});
  replay.open().forward(0, 128 * kMiB);
  CHECK(replay.fetched() == replay.size());
  CHECK(replay.waits() <= 2);
}

TEST_CASE("only misses count: what is read again and again from the cache pulls nothing") {
  Replay replay(1024 * kMiB);
  for (int i = 0; i < 100; ++i) {
    replay.open().read(1000 * kMiB, kPage);
    replay.read(500 * kMiB, kPage);
  }
  CHECK(replay.fetched() == 256 * kKiB);
}

TEST_CASE("a scan comes to what lies before it, not to what lies behind; single reads come to nothing") {
  readahead::FilePolicy policy(64 << 20, {});
  CHECK(policy.comes_to(40 << 20));  // not read yet
  SUBCASE("from the begin") {
    policy.on_read({0, 128 << 10}, false);
    CHECK(policy.comes_to(128 << 10));
    CHECK_FALSE(policy.comes_to(0));
  }
  SUBCASE("from the middle") {
    for (uint64_t at = 20 << 20; at < 23 << 20; at += 128 << 10) policy.on_read({at, at + (128 << 10)}, false);
    CHECK(policy.comes_to(23 << 20));
    CHECK_FALSE(policy.comes_to(22 << 20));
  }
  SUBCASE("here and there") {
    for (const uint64_t at : {50, 20, 35, 10}) policy.on_read({at << 20, (at << 20) + 65536}, false);
    CHECK_FALSE(policy.comes_to(60 << 20));
  }
}

TEST_CASE("states of streams") {
  Replay replay(1024 * kMiB);
  CHECK(replay.policy().streams().empty());
  replay.open().read(512 * kMiB, kPage);
  CHECK(replay.policy().streams().empty());
  replay.forward(100 * kMiB, 101 * kMiB);
  const auto streams = replay.policy().streams();
  REQUIRE(streams.size() == 1);
  CHECK(streams[0].begin == 100 * kMiB);
  CHECK(streams[0].next == 101 * kMiB);
  CHECK(streams[0].window_end == 102 * kMiB);
}
