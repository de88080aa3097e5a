// What training frameworks do to one file, as it was traced, and what may be fetched for it. Reads are what arrives
// from the kernel: pages, and READs of 128 KiB where it reads ahead itself.
#include "replay.h"

using namespace shardfs;
using readahead::Pattern;
using test::kKiB;
using test::kMiB;
using test::kPage;
using test::kRead;
using test::Replay;

namespace {

constexpr uint64_t kSizes[] = {8 * kMiB, 25'000'000, 128 * kMiB, 1024 * kMiB};

/// A fault of an mmap without MADV_RANDOM: the kernel reads 128 KiB around it.
void fault_around(Replay& replay, uint64_t offset) {
  const uint64_t page = offset / kPage * kPage;
  const uint64_t begin = page > 64 * kKiB ? page - 64 * kKiB : 0;
  replay.read(begin, std::min(kRead, replay.size() - begin));
}

void random_faults(Replay& replay, int count, std::mt19937_64& random) {
  for (int i = 0; i < count; ++i) replay.read(random() % replay.size() / kPage * kPage, kPage);
}

}  // namespace

TEST_CASE("WebDataset: one open, small reads strictly forward") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    Replay replay(size);
    replay.open();
    uint64_t at = 0;
    // The kernel's read-ahead starts small: 16, 32, 64, then 128 KiB.
    for (const uint64_t length : {16 * kKiB, 32 * kKiB, 64 * kKiB}) {
      replay.read(at, length);
      at += length;
    }
    replay.forward(at, size);
    CHECK(replay.fetched() == size);
    CHECK(replay.ahead() == size - kMiB);
    CHECK(replay.waits() == 1);
    CHECK(replay.pattern() == Pattern::kWhole);
  }
}

TEST_CASE("MDS: open, 8 bytes near the start, one sample, close, shuffled: whole after four opens, small ones sooner") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    int opens = 0;
    uint64_t before_whole = 0;
    while (replay.pattern() != Pattern::kWhole && opens < 10) {
      before_whole = replay.fetched();
      replay.open();
      if (opens++ == 0) replay.read(0, kRead);  // the kernel's page cache has it from then on
      replay.read((size / 10 * 7 + random() % (size / 4)) / kPage * kPage, 64 * kKiB);
    }
    CHECK(opens == (size <= 16 * kMiB ? 1 : size < 32 * kMiB ? 2 : 4));
    CHECK(before_whole <= 16 * kMiB + 4 * 128 * kKiB);
    CHECK(replay.fetched() == size);
    const int waits = replay.waits();
    for (int i = 0; i < 100; ++i) replay.open().read(random() % size / kPage * kPage, 64 * kKiB);
    CHECK(replay.waits() == waits);
    CHECK(replay.fetched() == size);
  }
}

TEST_CASE("LitData: a few opens a chunk, pages at random in a map, WILLNEED over the chunk as reads") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    replay.open();
    fault_around(replay, 0);
    for (int i = 0; i < 3; ++i) fault_around(replay, random() % size);
    CHECK(replay.fetched() <= 16 * kMiB + 4 * 256 * kKiB);
    replay.open().forward(0, size);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() <= 6);
  }
}

TEST_CASE("LitData without WILLNEED: whole after four opens") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    for (int i = 0; i < 10; ++i) {
      replay.open();
      fault_around(replay, random() % size);
    }
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() <= 4);
  }
}

TEST_CASE("Parquet, the footer alone: what it touches") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    const uint64_t pages_end = (size + kPage - 1) / kPage * kPage;
    Replay replay(size + 5);
    replay.open();
    replay.read(pages_end - kPage, kPage);              // the last 8 bytes
    replay.read(pages_end - 64 * kKiB, 64 * kKiB);      // the footer
    replay.read(pages_end - kRead, kRead - 64 * kKiB);  // and what the kernel adds
    CHECK(replay.fetched() <= 500'000);
    CHECK(replay.ahead() == 0);
    CHECK(replay.pattern() == Pattern::kSparse);
  }
}

TEST_CASE("Parquet, ParquetFile: after the footer forward by column chunks with small jumps") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    Replay replay(size);
    replay.open().read(size / kPage * kPage - 64 * kKiB, 68 * kKiB);
    for (uint64_t at = 0; at < size; at += 3 * kMiB) replay.forward(at, std::min(size, at + 2 * kMiB));
    CHECK(replay.waits() <= 3);
    CHECK(replay.dropped() == 0);
    CHECK(replay.fetched() <= size);
  }
}

TEST_CASE("Parquet, one column of ten: runs with jumps between; what lies between is mostly not fetched") {
  const uint64_t size = 1024 * kMiB, group = 50 * kMiB, chunk = 5 * kMiB;
  Replay replay(size);
  replay.open().read(size - 64 * kKiB, 64 * kKiB);
  int groups = 0;
  for (uint64_t at = 10 * kMiB; at + group < size; at += group, ++groups) replay.forward(at, at + chunk);
  CHECK(replay.waits() == 1 + 2 * groups);
  CHECK(replay.fetched() <= groups * (chunk + kMiB) + 16 * kMiB);  // after the last nobody has gone elsewhere yet
}

TEST_CASE("pyarrow dataset scanner: footer, then the whole body in one pread, as READs out of order") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    replay.open().read(size / kPage * kPage - 64 * kKiB, 68 * kKiB);
    replay.shuffled(0, size, random);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() <= 17);
  }
}

TEST_CASE("pyarrow, three threads with large preads in one file") {
  std::mt19937_64 random(1);
  Replay replay(128 * kMiB);
  replay.open().read(128 * kMiB - 64 * kKiB, 64 * kKiB);
  for (uint64_t at = 0; at < 25 * kMiB; at += kRead)
    for (uint64_t i = 0; i < 3; ++i) replay.read(i * 40 * kMiB + at, kRead);
  CHECK(replay.waits() <= 1 + 3 * 2);
  CHECK(replay.dropped() == 0);
  CHECK(replay.fetched() <= 128 * kMiB);
}

TEST_CASE("memory_map, load_from_disk: forward through the map, or rows at random") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    Replay forward(size);
    forward.open();
    fault_around(forward, 0);
    for (uint64_t at = kRead; at < size; at += 64 * kKiB) forward.read(at, std::min(64 * kKiB, size - at));
    CHECK(forward.fetched() == size);
    CHECK(forward.waits() == 1);

    std::mt19937_64 random(size);
    Replay rows(size);
    rows.open();
    for (int i = 0; i < 300; ++i) fault_around(rows, random() % size);
    CHECK(rows.fetched() == size);
    CHECK(rows.waits() <= 100);
  }
}

TEST_CASE("HF streaming, shuffled: ten forked readers of one file in turn, a sample each") {
  Replay replay(1024 * kMiB);
  replay.open().read(1024 * kMiB - 64 * kKiB, 64 * kKiB);
  for (uint64_t at = 0; at < 20 * kMiB; at += kRead)
    for (uint64_t i = 0; i < 10; ++i) replay.read(i * 100 * kMiB + at, kRead);
  CHECK(replay.waits() <= 1 + 10 * 2);
  CHECK(replay.dropped() == 0);
  CHECK(replay.policy().streams().size() == 10);
}

TEST_CASE("TFRecord, tfrecord: a 4 KiB header, then the rest, forward") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    Replay replay(size);
    replay.open().read(0, 4 * kPage);
    replay.forward(4 * kPage, size);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() == 1);
  }
}

TEST_CASE("TFRecord, tf.data: 256 KiB forward, and a read past the end") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    Replay replay(size);
    replay.open().forward(0, size, 2 * kRead);
    replay.read(size, 2 * kRead);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() == 1);
  }
}

TEST_CASE("LMDB with MADV_RANDOM: single pages at random; little each, then blocks, then whole") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    replay.open().read(0, 4 * kPage);  // its header
    random_faults(replay, 20, random);
    if (size > 100 * kMiB) CHECK(replay.fetched() <= kMiB + 20 * 128 * kKiB);
    random_faults(replay, 400, random);
    CHECK(replay.fetched() == size);
    CHECK(replay.pattern() == Pattern::kWhole);
    CHECK(replay.waits() <= 100);
  }
}

TEST_CASE("np.memmap of tokens: a map for each sample, windows of a page: whole after four") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size);
    Replay replay(size);
    for (int i = 0; i < 10; ++i) {
      replay.open();
      fault_around(replay, random() % size);
    }
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() <= 4);
  }
}

TEST_CASE("image folder, DALI fn.readers.file: small files read in one go, by one GET") {
  for (const uint64_t size : {uint64_t{1}, 10 * kKiB, 110 * kKiB, 700 * kKiB, 4 * kMiB}) {
    CAPTURE(size);
    Replay replay(size);
    const auto advice = replay.open().read(0, std::min(size, kRead));
    CHECK(advice.demand == base::ByteRange{0, size});
    CHECK(advice.ahead.empty());
    replay.forward(0, size);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() == 1);
  }
}

TEST_CASE("fio randread of 4 KiB: as LMDB") {
  for (const uint64_t size : kSizes) {
    CAPTURE(size);
    std::mt19937_64 random(size + 1);
    Replay replay(size);
    replay.open();
    random_faults(replay, 500, random);
    CHECK(replay.fetched() == size);
    CHECK(replay.waits() <= 100);
  }
}

TEST_CASE("forked readers that share a descriptor and scan apart") {
  Replay replay(128 * kMiB);
  replay.open();
  for (uint64_t at = 0; at < 32 * kMiB; at += kRead)
    for (uint64_t i = 0; i < 4; ++i) replay.read(i * 32 * kMiB + at, kRead);
  CHECK(replay.fetched() == 128 * kMiB);
  CHECK(replay.waits() <= 1 + 3 * 2);
}
