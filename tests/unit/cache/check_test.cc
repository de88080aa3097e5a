// Checks of what lies on the disk: `cache verify` and the scrub.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "cache/holdings.h"
#include "cache/scrub.h"
#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

namespace {

void put(TestCache& cache, const std::string& key, uint64_t bytes) {
  const auto file = cache->open_file(object(key), bytes);
  REQUIRE(file);
  REQUIRE(fill(*file, key));
}

// In the file of that length.
void flip_byte(const TestFolder& folder, uint64_t file_bytes, uint64_t at) {
  for (const auto& path : folder.files(".data")) {
    if (std::filesystem::file_size(path) != file_bytes) continue;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
}

// Page by page, one block each, as the manual clock stands still only for a budget of nothing.
Holdings::Check check_all(TestCache& cache, std::chrono::milliseconds duration) {
  Holdings::Check sum;
  do {
    const auto page = cache->holdings()->check(sum.next, duration);
    REQUIRE(page);
    sum.files += page->files;
    sum.blocks += page->blocks;
    sum.bytes += page->bytes;
    sum.bad.insert(sum.bad.end(), page->bad.begin(), page->bad.end());
    sum.next = page->next;
  } while (!sum.next.empty());
  return sum;
}

}  // namespace

TEST_CASE("a check reads every block once, finds the bad ones in good files of this start, and drops only them") {
  for (const auto duration : {std::chrono::milliseconds(0), std::chrono::milliseconds(1000)}) {
    CAPTURE(duration.count());
    const TestFolder folder;
    TestCache cache(folder);
    put(cache, "a", 3 * kMiB);
    put(cache, "b", 2 * kMiB + 9);
    put(cache, "c", 500);
    {
      const auto partial = cache->open_file(object("d"), 4 * kMiB);
      REQUIRE(partial->begin_fill(2) == FillAnswer::kGranted);
      REQUIRE(partial->write_block(2, block_of("d", 4 * kMiB, 2)));
    }
    const auto good = check_all(cache, duration);
    CHECK(good.files == 4);
    CHECK(good.blocks == 3 + 3 + 1 + 1);
    CHECK(good.bytes == 3 * kMiB + 2 * kMiB + 9 + 500 + kMiB);
    CHECK(good.bad.empty());
    CHECK(cache.counter("cache_checked_bytes") == good.bytes);
    flip_byte(folder, 2 * kMiB + 9, kMiB + 7);
    flip_byte(folder, 2 * kMiB + 9, 2 * kMiB + 8);
    flip_byte(folder, 500, 499);
    flip_byte(folder, 4 * kMiB, 2 * kMiB);
    const auto bad = check_all(cache, duration);
    CHECK(bad.bad.size() == 4);
    CHECK(cache->stats().bad_blocks == 4);
    const auto of_b = std::count_if(bad.bad.begin(), bad.bad.end(), [](const auto& b) { return b.id.key == "b"; });
    CHECK(of_b == 2);
    const auto b = cache->find_file(object("b"), 2 * kMiB + 9);
    REQUIRE(b);
    CHECK(b->has_block(0));
    CHECK_FALSE(b->has_block(1));
    CHECK_FALSE(b->has_block(2));
    CHECK_FALSE(b->complete());
    CHECK(cache->find_file(object("a"), 3 * kMiB)->verified());
    REQUIRE(fill(*b, "b"));
    CHECK(reads_right(*b, "b"));
    CHECK(check_all(cache, duration).bad.empty());
  }
}

TEST_CASE("a check after a restart of the machine makes files verified") {
  const TestFolder folder;
  {
    TestCache cache(folder);
    put(cache, "a", 3 * kMiB + 1);
  }
  TestCache cache(folder, 64 * kMiB, "boot-2");
  const auto before = cache->holdings()->find(object("a"), 3 * kMiB + 1);
  CHECK_FALSE(before->verified);
  cache.clock.advance(std::chrono::hours(1));
  CHECK(check_all(cache, std::chrono::milliseconds(5)).blocks == 4);
  const auto after = cache->holdings()->find(object("a"), 3 * kMiB + 1);
  CHECK(after->verified);
  CHECK(after->last_use_ms == before->last_use_ms);  // a check is no use
  CHECK(cache->find_file(object("a"), 3 * kMiB + 1)->verified());
}

TEST_CASE("a place that means nothing begins at the beginning; one of a file that left goes on behind it") {
  const TestFolder folder;
  TestCache cache(folder);
  put(cache, "a", kMiB);
  put(cache, "b", kMiB);
  CHECK(cache->holdings()->check("nonsense", std::chrono::hours(1))->blocks == 2);
  const auto first = cache->holdings()->check("", std::chrono::milliseconds(0));
  REQUIRE(first);
  CHECK(first->blocks == 1);
  const auto page = cache->holdings()->list("", 1);
  REQUIRE(cache->holdings()->evict(page->entries.front().name) == Evicted::kEvicted);
  CHECK(cache->holdings()->check(first->next, std::chrono::hours(1))->blocks == 1);
}

TEST_CASE("the scrub checks everything by itself, at a twentieth of the time") {
  CHECK(Scrub::pause_after(std::chrono::milliseconds(3)) == std::chrono::milliseconds(57));
  const TestFolder folder;
  {
    TestCache cache(folder);
    put(cache, "a", 3 * kMiB);
    put(cache, "b", kMiB);
  }
  flip_byte(folder, 3 * kMiB, 5);
  TestCache cache(folder, 64 * kMiB, "boot-2");
  cache.close();
  cache.options.scrub = true;
  REQUIRE(cache.open());
  while (cache.counter("cache_checked_bytes") < 4 * kMiB) std::this_thread::yield();
  CHECK(cache->stats().bad_blocks == 1);
  CHECK_FALSE(cache->find_file(object("a"), 3 * kMiB)->has_block(0));
  cache.close();  // ends it
}
