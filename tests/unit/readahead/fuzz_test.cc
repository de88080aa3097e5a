// Any sequence of reads: advice stays within the object, nothing is wanted twice, and what is fetched stays in
// proportion to what was read until the object is pulled whole. A failure names its seed.
#include "replay.h"

using namespace shardfs;
using readahead::Pattern;
using test::kMiB;
using test::kPage;
using test::Replay;

TEST_CASE("any sequence of opens, reads, jumps, runs and losses") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const uint64_t size = random() % (random() % 4 ? 200 * kMiB : 3 * kMiB) + 1;
    readahead::PolicyLimits limits;
    if (random() % 3 == 0) limits.whole_object_bytes = 0;
    if (random() % 3 == 0) limits.memory_bytes = 8 * kMiB << random() % 4;
    Replay replay(size, limits);
    bool lost = false;
    uint64_t reads = 0;
    std::vector<uint64_t> cursors(random() % 20 + 1);
    for (auto& cursor : cursors) cursor = random() % size / kPage * kPage;
    for (int step = 0; step < 400; ++step) {
      auto& cursor = cursors[random() % cursors.size()];
      switch (random() % 16) {
        case 0: replay.open(); break;
        case 1: cursor = random() % size / kPage * kPage; break;
        case 2: cursor = 0; break;
        case 3: cursor += random() % (3 * kMiB) / kPage * kPage; break;
        case 4:
          if (seed % 4 == 0) {
            replay.lose({cursor, std::min(size, cursor + 4 * kMiB)});
            lost = true;
          }
          break;
        default: break;
      }
      const uint64_t length = (random() % 32 + 1) * kPage * (random() % 8 ? 1 : 8);
      replay.read(cursor, length);
      ++reads;
      cursor += length;
      REQUIRE(replay.policy().streams().size() <= 32);
    }
    CHECK(replay.fetched() <= size);
    CHECK((lost || replay.ahead() <= size + replay.dropped()));
    if (limits.whole_object_bytes == 0) CHECK(replay.pattern() != Pattern::kWhole);
  }
}

TEST_CASE("random single reads of a large object cost at most a block each") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    readahead::PolicyLimits limits;
    limits.whole_object_bytes = 0;
    Replay replay(1024 * kMiB, limits);
    replay.open();
    for (int i = 0; i < 500; ++i) replay.read((random() % (1023 * kMiB) + kMiB) / kPage * kPage, kPage);
    CHECK(replay.fetched() <= 500 * kMiB);
    CHECK(replay.ahead() <= 8 * kMiB);  // where four happened to lie together
  }
}
