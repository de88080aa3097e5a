// The limit, the floor of free space, and what leaves for them.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

namespace {

// Threads that write five times the limit, measured at every step by what the file system says.
void write_past_the_limit(const TestFolder& folder, TestCache& cache, uint64_t limit, uint64_t object_bytes) {
  constexpr int kThreads = 8;
  const auto objects = static_cast<int>(5 * limit / object_bytes / kThreads);
  std::atomic<uint64_t> worst{0};
  std::atomic<uint64_t> written{0};
  std::atomic<int> wrong{0};
  // A walk over a folder that changes meanwhile would count a file and its successor: steps stop while one measures.
  std::shared_mutex steps;
  const auto measure = [&] {
    const std::unique_lock guard(steps);
    const uint64_t now = folder.allocated_bytes();
    uint64_t before = worst;
    while (before < now && !worst.compare_exchange_weak(before, now)) {
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < objects; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        const auto file = [&] {
          const std::shared_lock guard(steps);
          return cache->open_file(object(key), object_bytes);
        }();
        for (uint32_t block = 0; file && block < file->block_count(); ++block) {
          {
            const std::shared_lock guard(steps);
            if (file->begin_fill(block) != FillAnswer::kGranted) continue;
          }
          measure();
          const auto bytes = block_of(key, object_bytes, block);
          {
            const std::shared_lock guard(steps);
            if (!file->write_block(block, bytes)) ++wrong;
          }
          written += bytes.size();
          measure();
          std::vector<std::byte> back(bytes.size());
          const uint64_t begin = uint64_t{block} * kBlockBytes;
          if (!file->read({begin, begin + back.size()}, back) || back != bytes) ++wrong;
        }
        if (file) static_cast<void>(file->finish());
        cache.clock.advance(std::chrono::milliseconds(300));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  MESSAGE("limit " << limit << ", at most " << worst.load() << " on the disk, written " << written.load());
  CHECK(wrong == 0);
  CHECK(worst <= limit);
  CHECK(written > limit);
  CHECK(cache->stats().evicted_files > 0);
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
}

}  // namespace

TEST_CASE("the limit holds under eight threads: shards") {
  const TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  write_past_the_limit(folder, cache, 32 * kMiB, 2 * kMiB + 5000);
}

TEST_CASE("the limit holds under eight threads: small files") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  write_past_the_limit(folder, cache, 8 * kMiB, 60'000);
}

TEST_CASE("the accounting agrees with the disk, and with a count from nothing") {
  const TestFolder folder;
  uint64_t used = 0;
  {
    TestCache cache(folder);
    for (int i = 0; i < 20; ++i) {
      const std::string key = "k" + std::to_string(i);
      REQUIRE(fill(*cache->open_file(object(key), 300'000 + i * 100'000), key));
    }
    cache->flush();
    used = cache->stats().used_bytes;
    const uint64_t disk = folder.allocated_bytes();
    CHECK(disk <= used + kMiB);
    CHECK(used <= disk + 20 * 8192);
  }
  {
    TestCache cache(folder);  // left clean: the figure is kept
    CHECK(nearly(cache->stats().used_bytes, used));
  }
  // Not clean: as after a power cut.
  {
    base::UniqueFd fd(::open((folder.cache() + "/budget").c_str(), O_WRONLY | O_CLOEXEC));
    const uint32_t zero = 0;
    const uint64_t nonsense = 1ULL << 40;
    base::SystemDisk disk;
    REQUIRE(disk.write_at(fd.get(), std::as_bytes(std::span(&zero, 1)), 12));
    REQUIRE(disk.write_at(fd.get(), std::as_bytes(std::span(&nonsense, 1)), 16));
  }
  TestCache cache(folder);
  cache->flush();
  CHECK(cache->stats().used_bytes <= used + 65536);
  CHECK(cache->stats().used_bytes + 65536 >= used);
  CHECK(cache->stats().files == 20);
  CHECK(cache->stats().complete_files == 20);
}

TEST_CASE("the longest unused leaves first") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  for (const char* key : {"a", "b", "c"}) {
    REQUIRE(fill(*cache->open_file(object(key), 2 * kMiB), key));
    cache.clock.advance(std::chrono::seconds(10));
  }
  cache->touch(object("a"));
  cache.clock.advance(std::chrono::seconds(10));
  REQUIRE(fill(*cache->open_file(object("d"), 2 * kMiB), "d"));
  CHECK(cache->find_file(object("a"), 2 * kMiB));
  CHECK_FALSE(cache->find_file(object("b"), 2 * kMiB));
  CHECK(cache->find_file(object("c"), 2 * kMiB));
  CHECK(cache->find_file(object("d"), 2 * kMiB));
  CHECK(cache->stats().evicted_files == 1);
  CHECK(cache->stats().evicted_bytes > 2 * kMiB);
}

TEST_CASE("last uses survive a restart") {
  const TestFolder folder;
  {
    TestCache cache(folder, 8 * kMiB);
    for (const char* key : {"a", "b"}) {
      REQUIRE(fill(*cache->open_file(object(key), 2 * kMiB), key));
      cache.clock.advance(std::chrono::seconds(10));
    }
    cache->touch(object("a"));
  }
  TestCache cache(folder, 8 * kMiB);
  cache.clock.advance(std::chrono::minutes(10));
  REQUIRE(fill(*cache->open_file(object("c"), 4 * kMiB), "c"));
  CHECK(cache->find_file(object("a"), 2 * kMiB));
  CHECK_FALSE(cache->find_file(object("b"), 2 * kMiB));
}

TEST_CASE("nothing is written below the floor of free space, and old files leave for it") {
  const TestFolder folder;
  FaultyDisk disk;
  TestCache cache(folder, 64 * kMiB, "boot-1", &disk);
  cache.close();
  cache.options.min_free.bytes = 100 * kMiB;
  REQUIRE(cache.open());
  const auto old = cache->open_file(object("old"), 2 * kMiB);
  REQUIRE(fill(*old, "old"));
  disk.available_bytes = 100 * kMiB + 100'000;
  CHECK(cache->stats().free_bytes <= 100'000);
  cache.clock.advance(std::chrono::seconds(2));
  const auto file = cache->open_file(object("new"), 2 * kMiB);
  REQUIRE(file);
  CHECK(file->begin_fill(0) == FillAnswer::kRefused);
  CHECK(cache.counter("cache_refused_blocks") == 1);
  CHECK(reads_right(*old, "old"));
  disk.available_bytes = UINT64_MAX;
  cache.clock.advance(std::chrono::seconds(2));
  CHECK(file->begin_fill(0) == FillAnswer::kGranted);
  const auto stats = cache->stats();
  CHECK(stats.free_bytes == stats.limit_bytes - stats.used_bytes);
}

TEST_CASE("a smaller limit takes effect at the next start") {
  const TestFolder folder;
  {
    TestCache cache(folder, 64 * kMiB);
    for (int i = 0; i < 8; ++i) {
      const std::string key = "k" + std::to_string(i);
      REQUIRE(fill(*cache->open_file(object(key), 2 * kMiB), key));
      cache.clock.advance(std::chrono::seconds(1));
    }
  }
  TestCache cache(folder, 8 * kMiB);
  cache->flush();
  CHECK(folder.allocated_bytes() <= 8 * kMiB);
  CHECK_FALSE(cache->find_file(object("k0"), 2 * kMiB));
  CHECK(cache->find_file(object("k7"), 2 * kMiB));
}

TEST_CASE("files removed by hand give their space back to the budget") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  for (const char* key : {"a", "b"}) REQUIRE(fill(*cache->open_file(object(key), 3 * kMiB), key));
  std::filesystem::remove_all(folder.cache() + "/objects");
  cache.clock.advance(std::chrono::minutes(2));
  const auto file = cache->open_file(object("c"), 6 * kMiB);
  REQUIRE(file);
  CHECK(fill(*file, "c"));
  CHECK(reads_right(*file, "c"));
}

TEST_CASE("a mount's share bounds what its prefix takes; its own files leave for its newcomers") {
  const TestFolder folder;
  TestCache other(folder, 32 * kMiB);
  REQUIRE(fill(*other->open_file(object("other/a"), 6 * kMiB), "other/a"));
  other->flush();
  TestCache cache(folder, 32 * kMiB);
  cache.close();
  cache.options.set_prefix = "mine/";
  cache.options.share = {.bytes = 0, .percent = 40};
  REQUIRE(cache.open());
  for (int i = 0; i < 8; ++i) {
    cache.clock.advance(std::chrono::seconds(10));
    const std::string key = "mine/" + std::to_string(i);
    const auto file = cache->open_file(object(key), 3 * kMiB);
    REQUIRE(file);
    REQUIRE(fill(*file, key));
    uint64_t mine = 0;
    for (int k = 0; k < 8; ++k) {
      if (cache->find_file(object("mine/" + std::to_string(k)), 3 * kMiB)) mine += 3 * kMiB;
    }
    CHECK(mine <= 32 * kMiB * 40 / 100);
    CHECK(mine >= std::min(i + 1, 4) * 3 * kMiB);
  }
  CHECK(cache->stats().evicted_files == 4);
  CHECK(other->find_file(object("other/a"), 6 * kMiB));                       // there was room for it all the time
  CHECK(cache->open_file(object("mine/large"), 14 * kMiB) == nullptr);        // more than the share
  REQUIRE(fill(*other->open_file(object("other/b"), 14 * kMiB), "other/b"));  // others are not bounded by it
}

TEST_CASE("a mount whose share is in use streams") {
  const TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  cache.close();
  cache.options.share = {.bytes = 7 * kMiB};
  REQUIRE(cache.open());
  std::vector<std::shared_ptr<CacheFile>> open;
  for (const char* key : {"a", "b"}) {
    open.push_back(cache->open_file(object(key), 3 * kMiB));
    REQUIRE(fill(*open.back(), key));
  }
  CHECK(cache->open_file(object("c"), 3 * kMiB) == nullptr);
  open.clear();
  CHECK(cache->open_file(object("c"), 3 * kMiB));
  cache.close();
  REQUIRE(cache.open());  // what a mount before it left counts, too
  auto a = cache->find_file(object("a"), 3 * kMiB), b = cache->find_file(object("b"), 3 * kMiB);
  auto c = cache->open_file(object("c"), 3 * kMiB);
  CHECK((a != nullptr) + (b != nullptr) + (c != nullptr) == 2);
}
