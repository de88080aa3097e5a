// One process: what goes in comes out, now and after a restart.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <thread>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

TEST_CASE("blocks go in, the file becomes complete, and is exactly as long as its object") {
  const TestFolder folder;
  TestCache cache(folder);
  REQUIRE(cache.cache);
  const uint64_t size = 3 * kMiB + 12345;
  const auto file = cache->open_file(object("a.tar"), size);
  REQUIRE(file);
  CHECK(file->block_count() == 4);
  CHECK(file->resident_bytes() == 0);
  CHECK_FALSE(file->has_block(0));
  CHECK_FALSE(file->complete());
  REQUIRE(file->begin_fill(3) == FillAnswer::kGranted);
  REQUIRE(file->write_block(3, block_of("a.tar", size, 3)));
  CHECK(file->has_block(3));
  CHECK(file->resident_bytes() == 12345);
  CHECK_FALSE(*file->finish());
  REQUIRE(fill(*file, "a.tar"));
  CHECK(file->complete());
  CHECK(file->verified());
  CHECK(file->resident_bytes() == size);
  CHECK(reads_right(*file, "a.tar"));
  const auto data = folder.files(".data");
  REQUIRE(data.size() == 1);
  CHECK(std::filesystem::file_size(data[0]) == size);
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
  CHECK(cache.counter("cache_written_bytes") == size);
}

TEST_CASE("reads of any range give the object's bytes, and absence is an answer") {
  const TestFolder folder;
  TestCache cache(folder);
  const uint64_t size = 2 * kMiB + 100;
  const auto file = cache->open_file(object("k"), size);
  REQUIRE(file);
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  REQUIRE(file->write_block(0, block_of("k", size, 0)));
  std::vector<std::byte> bytes(1000);
  REQUIRE(file->read({kMiB - 1000, kMiB}, bytes));
  CHECK(bytes == bytes_of("k", {kMiB - 1000, kMiB}));
  const auto absent = file->read({kMiB - 500, kMiB + 500}, bytes);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == base::Code::kNotFound);
  const auto beyond = file->read({size - 500, size + 500}, bytes);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == base::Code::kInvalid);
  REQUIRE(fill(*file, "k"));
  bytes.resize(kMiB + 90);
  REQUIRE(file->read({kMiB - 10, 2 * kMiB + 80}, bytes));
  CHECK(bytes == bytes_of("k", {kMiB - 10, 2 * kMiB + 80}));
}

TEST_CASE("a partial file goes on after a restart") {
  const TestFolder folder;
  const uint64_t size = 4 * kMiB;
  {
    TestCache cache(folder);
    const auto file = cache->open_file(object("p"), size);
    for (const uint32_t block : {0U, 2U}) {
      REQUIRE(file->begin_fill(block) == FillAnswer::kGranted);
      REQUIRE(file->write_block(block, block_of("p", size, block)));
    }
  }
  TestCache cache(folder);
  CHECK_FALSE(cache->find_file(object("other"), size));
  const auto file = cache->find_file(object("p"), size);
  REQUIRE(file);
  CHECK(file->has_block(0));
  CHECK_FALSE(file->has_block(1));
  CHECK(file->begin_fill(2) == FillAnswer::kResident);
  REQUIRE(fill(*file, "p"));
  CHECK(reads_right(*file, "p"));
}

TEST_CASE("a complete file is there after a restart, and verified only for the machine start that wrote it") {
  const TestFolder folder;
  const uint64_t size = 2 * kMiB + 7;
  {
    TestCache cache(folder);
    REQUIRE(fill(*cache->open_file(object("c"), size), "c"));
  }
  {
    TestCache cache(folder);
    CHECK(cache->find_file(object("c"), size)->verified());
  }
  TestCache cache(folder, 64 * kMiB, "boot-2");
  const auto file = cache->find_file(object("c"), size);
  REQUIRE(file);
  CHECK(file->complete());
  CHECK_FALSE(file->verified());
  std::vector<std::byte> few(10);
  REQUIRE(file->read({kMiB + 5, kMiB + 15}, few));
  CHECK(few == bytes_of("c", {kMiB + 5, kMiB + 15}));
  CHECK_FALSE(file->verified());
  CHECK(reads_right(*file, "c"));
  CHECK(file->verified());
}

TEST_CASE("another version or size of a key is another file, and other namespaces are not seen") {
  const TestFolder folder;
  TestCache cache(folder);
  REQUIRE(fill(*cache->open_file(object("k", "v1"), 1000), "k"));
  CHECK_FALSE(cache->find_file(object("k", "v2"), 1000));
  CHECK_FALSE(cache->find_file(object("k", "v1"), 1001));
  TestCache other(folder);
  other.close();
  other.options.trust_namespace = "uid-1000";
  REQUIRE(other.open());
  CHECK_FALSE(other->find_file(object("k", "v1"), 1000));
  CHECK(cache->find_file(object("k", "v1"), 1000));
}

TEST_CASE("one instance a process, one fill right a block") {
  const TestFolder folder;
  TestCache cache(folder);
  const auto a = cache->open_file(object("k"), kMiB);
  CHECK(cache->open_file(object("k"), kMiB) == a);
  REQUIRE(a->begin_fill(0) == FillAnswer::kGranted);
  CHECK(a->begin_fill(0) == FillAnswer::kBusy);
  CHECK(cache.gauge("cache_reserved_bytes") == static_cast<int64_t>(kMiB));
  a->abandon_fill(0);
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
  REQUIRE(a->begin_fill(0) == FillAnswer::kGranted);
  const auto wrong = a->write_block(0, block_of("k", 1000, 0));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == base::Code::kInvalid);
  CHECK(a->begin_fill(0) == FillAnswer::kGranted);
  CHECK(a->begin_fill(1) == FillAnswer::kRefused);
  CHECK(a->begin_fill(0) == FillAnswer::kBusy);
}

TEST_CASE("fills that nobody ended are given back when the file is closed") {
  const TestFolder folder;
  TestCache cache(folder);
  auto file = cache->open_file(object("k"), 3 * kMiB);
  const uint64_t empty = cache->stats().used_bytes;
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  REQUIRE(file->begin_fill(2) == FillAnswer::kGranted);
  CHECK(nearly(cache->stats().used_bytes, empty + 2 * kMiB));
  file.reset();
  CHECK(nearly(cache->stats().used_bytes, empty));
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
}

TEST_CASE("empty objects and objects larger than the cache never enter") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  CHECK_FALSE(cache->open_file(object("empty"), 0));
  CHECK_FALSE(cache->open_file(object("huge"), 8 * kMiB));
  CHECK_FALSE(cache->open_file(object("absurd"), UINT64_MAX));
  CHECK(cache->open_file(object("fits"), 6 * kMiB));
}

TEST_CASE("the backing descriptor is read-only, its own, and stays readable when the folder is gone") {
  const TestFolder folder;
  TestCache cache(folder);
  const auto file = cache->open_file(object("k"), kMiB + 5);
  CHECK_FALSE(file->backing_descriptor());
  REQUIRE(fill(*file, "k"));
  const auto pin = file->pin();
  REQUIRE(pin);
  auto fd = file->backing_descriptor();
  REQUIRE(fd);
  CHECK((::fcntl(fd->get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
  std::filesystem::remove_all(folder.cache());
  std::vector<std::byte> bytes(kMiB + 5);
  REQUIRE(cache.disk->read_at(fd->get(), bytes, 0));
  CHECK(bytes == bytes_of("k", {0, kMiB + 5}));
  CHECK(reads_right(*file, "k"));
  CHECK_FALSE(cache->open_file(object("new"), kMiB));
}

TEST_CASE("threads that fill and read one file agree") {
  const TestFolder folder;
  TestCache cache(folder);
  const uint64_t size = 16 * kMiB + 3;
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto file = cache->open_file(object("shared"), size);
      for (uint32_t block = 0; block < file->block_count(); ++block) {
        if (file->begin_fill(block) != FillAnswer::kGranted) continue;
        ++granted;
        if (!file->write_block(block, block_of("shared", size, block))) granted += 1000;
      }
      static_cast<void>(file->finish());
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(granted == 17);
  const auto file = cache->find_file(object("shared"), size);
  REQUIRE(file);
  CHECK(file->complete());
  CHECK(reads_right(*file, "shared"));
}
