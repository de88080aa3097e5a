// What a person does with a cache folder: look, pin, evict, set its limit.
#include "cache/holdings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;
using base::Code;

namespace {

void put(TestCache& cache, const std::string& key, uint64_t bytes) {
  const auto file = cache->open_file(object(key), bytes);
  REQUIRE(file);
  REQUIRE(fill(*file, key));
}

std::set<std::string> keys_of(TestCache& cache, size_t page_files = 2) {
  std::set<std::string> keys;
  std::string after;
  do {
    const auto page = cache->holdings()->list(after, page_files);
    REQUIRE(page);
    for (const auto& entry : page->entries) CHECK(keys.insert(entry.id.key).second);
    after = page->next;
  } while (!after.empty());
  return keys;
}

std::string name_of(TestCache& cache, const std::string& key, uint64_t bytes) {
  const auto found = cache->holdings()->find(object(key), bytes);
  REQUIRE(found);
  return found->name;
}

}  // namespace

TEST_CASE("a list has every file once, page by page, with what is resident of it") {
  const TestFolder folder;
  TestCache cache(folder);
  for (int i = 0; i < 7; ++i) put(cache, "a/" + std::to_string(i), 3 * kMiB + 5);
  {
    const auto partial = cache->open_file(object("b"), 2 * kMiB + 1);
    REQUIRE(partial->begin_fill(1) == FillAnswer::kGranted);
    REQUIRE(partial->write_block(1, block_of("b", 2 * kMiB + 1, 1)));
    const auto shown = cache->holdings()->find(object("b"), 2 * kMiB + 1);
    REQUIRE(shown);
    CHECK(shown->open);
    CHECK_FALSE(shown->complete);
    CHECK(shown->resident_bytes == kMiB);
  }
  CHECK(keys_of(cache, 1).size() == 8);
  CHECK(keys_of(cache, 3).size() == 8);
  CHECK(keys_of(cache, 100).size() == 8);
  const auto shown = cache->holdings()->find(object("a/3"), 3 * kMiB + 5);
  REQUIRE(shown);
  CHECK(shown->complete);
  CHECK(shown->verified);
  CHECK_FALSE(shown->open);
  CHECK_FALSE(shown->pinned);
  CHECK(shown->resident_bytes == 3 * kMiB + 5);
  CHECK(shown->cost_bytes > 3 * kMiB + 4096);
  CHECK(shown->id == object("a/3"));
  CHECK(cache->holdings()->matching("bucket", "a/")->size() == 7);
  CHECK(cache->holdings()->matching("bucket", "b")->size() == 1);
  CHECK(cache->holdings()->matching("other", "b")->empty());
  CHECK(cache->holdings()->find("site/0123").error().code == Code::kNotFound);
  CHECK(cache->holdings()->find(object("b"), 5).error().code == Code::kNotFound);
}

TEST_CASE("after a restart of the machine a complete file is listed as not verified") {
  const TestFolder folder;
  {
    TestCache cache(folder);
    put(cache, "a", 2 * kMiB);
  }
  TestCache cache(folder, 64 * kMiB, "boot-2");
  const auto shown = cache->holdings()->find(object("a"), 2 * kMiB);
  REQUIRE(shown);
  CHECK(shown->complete);
  CHECK_FALSE(shown->verified);
}

TEST_CASE("what is pinned stays, over remounts, and what is unpinned leaves") {
  const TestFolder folder;
  {
    TestCache cache(folder, 32 * kMiB);
    put(cache, "kept", 4 * kMiB);
    const auto pinned = cache->holdings()->pin(object("kept"), 4 * kMiB);
    REQUIRE(pinned);
    CHECK(pinned->pinned);
    CHECK(cache->holdings()->evict(pinned->name) == Evicted::kPinned);
  }
  TestCache cache(folder, 32 * kMiB);
  const auto push_out = [&](const std::string& prefix) {
    for (int i = 0; i < 20; ++i) {
      cache.clock.advance(std::chrono::seconds(10));
      put(cache, prefix + std::to_string(i), 4 * kMiB);
    }
  };
  push_out("a");
  CHECK(cache->stats().evicted_files > 10);
  auto kept = cache->find_file(object("kept"), 4 * kMiB);
  REQUIRE(kept);
  CHECK(reads_right(*kept, "kept"));
  kept.reset();
  const auto unpinned = cache->holdings()->unpin(name_of(cache, "kept", 4 * kMiB));
  REQUIRE(unpinned);
  CHECK_FALSE(unpinned->pinned);
  push_out("b");
  CHECK(cache->find_file(object("kept"), 4 * kMiB) == nullptr);
}

TEST_CASE("a pin of what is not there makes room for it and keeps the empty entry") {
  for (const auto eviction : {Eviction::kLeastRecentlyUsed, Eviction::kNextUse}) {
    const TestFolder folder;
    TestCache cache(folder, 32 * kMiB);
    cache.close();
    cache.options.eviction = eviction;
    REQUIRE(cache.open());
    // A set that is known to return: for a newcomer nothing of it leaves.
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int i = 0; i < 7; ++i) {
        const std::string key = "set/" + std::to_string(i);
        cache.clock.advance(std::chrono::seconds(1));
        cache->touch(object(key));
        if (epoch == 0) put(cache, key, 3 * kMiB);
      }
    }
    const auto pinned = cache->holdings()->pin(object("new/one"), 16 * kMiB);
    REQUIRE_MESSAGE(pinned, (pinned ? "" : pinned.error().message));
    CHECK(pinned->pinned);
    CHECK(pinned->resident_bytes == 0);
    const auto file = cache->open_file(object("new/one"), 16 * kMiB);
    REQUIRE(file);
    CHECK(fill(*file, "new/one"));
    CHECK(cache->holdings()->limit()->pinned_bytes >= 16 * kMiB);
  }
}

TEST_CASE("pins never take more than the limit") {
  const TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  put(cache, "a", 10 * kMiB);
  REQUIRE(cache->holdings()->pin(object("a"), 10 * kMiB));
  const auto larger = cache->holdings()->pin(object("larger"), 100 * kMiB);
  REQUIRE_FALSE(larger);
  CHECK(larger.error().code == Code::kCacheFull);
  CHECK(larger.error().message.find("100") != std::string::npos);
  CHECK(larger.error().message.find("32 MiB") != std::string::npos);
  CHECK_FALSE(cache->holdings()->pin(object("together"), 22 * kMiB));
  CHECK(cache->holdings()->pin(object("a"), 10 * kMiB));  // again: nothing changes
  CHECK(keys_of(cache) == std::set<std::string>{"a"});
  CHECK(cache->holdings()->pin(object("empty"), 0).error().code == Code::kNotFound);
}

TEST_CASE("evicted is what nobody uses: not what this or another process has open") {
  const TestFolder folder;
  TestCache cache(folder);
  put(cache, "a", 2 * kMiB);
  const std::string name = name_of(cache, "a", 2 * kMiB);
  {
    const auto open = cache->find_file(object("a"), 2 * kMiB);
    CHECK(cache->holdings()->evict(name) == Evicted::kInUse);
    CHECK(reads_right(*open, "a"));
  }
  {
    Child other(folder, 64 * kMiB);
    REQUIRE(other.ask("open a 2097152") == "ok");
    CHECK(cache->holdings()->evict(name) == Evicted::kInUse);
    CHECK(cache->holdings()->find(name)->open);
    other.kill();
  }
  CHECK(cache->holdings()->evict(name) == Evicted::kEvicted);
  CHECK(cache->holdings()->evict(name) == Evicted::kGone);
  CHECK(folder.files(".data").empty());
  CHECK(cache->stats().evicted_files == 1);
  CHECK(cache->find_file(object("a"), 2 * kMiB) == nullptr);
  CHECK(keys_of(cache).empty());
}

TEST_CASE("the limit of the folder is lowered and raised for all its mounts, until the last one ends") {
  const TestFolder folder;
  {
    TestCache cache(folder, 32 * kMiB), second(folder, 32 * kMiB);
    for (int i = 0; i < 6; ++i) put(cache, std::to_string(i), 4 * kMiB);
    const auto lowered = cache->holdings()->set_limit({.bytes = 12 * kMiB});
    REQUIRE(lowered);
    CHECK(lowered->of_folder);
    CHECK(lowered->limit_bytes == 12 * kMiB);
    CHECK(lowered->used_bytes <= 12 * kMiB);
    CHECK(folder.allocated_bytes() <= 12 * kMiB);
    CHECK(cache->stats().evicted_files >= 4);
    // The other mount keeps to it at once.
    CHECK(second->stats().limit_bytes == 12 * kMiB);
    CHECK(second->open_file(object("larger"), 16 * kMiB) == nullptr);
    put(second, "new", 4 * kMiB);
    CHECK(folder.allocated_bytes() <= 12 * kMiB);
    // And a later one.
    TestCache third(folder, 64 * kMiB);
    CHECK(third->stats().limit_bytes == 12 * kMiB);
    const auto raised = second->holdings()->set_limit({.bytes = 48 * kMiB});
    REQUIRE(raised);
    for (int i = 0; i < 9; ++i) put(cache, "more" + std::to_string(i), 4 * kMiB);
    CHECK(cache->stats().used_bytes > 32 * kMiB);
    CHECK(folder.allocated_bytes() <= 48 * kMiB);
  }
  TestCache cache(folder, 32 * kMiB);
  CHECK(cache->stats().limit_bytes == 32 * kMiB);
  CHECK_FALSE(cache->holdings()->limit()->of_folder);
}

TEST_CASE("a limit that makes no sense is refused: too small, or less than what is pinned") {
  const TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  CHECK(cache->holdings()->set_limit({.bytes = 1 * kMiB}).error().code == Code::kInvalid);
  put(cache, "a", 14 * kMiB);
  REQUIRE(cache->holdings()->pin(object("a"), 14 * kMiB));
  const auto refused = cache->holdings()->set_limit({.bytes = 12 * kMiB});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("pinned") != std::string::npos);
  CHECK(cache->stats().limit_bytes == 32 * kMiB);
}

TEST_CASE("what is in use stays when the limit is lowered, and goes when it is closed") {
  const TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  for (int i = 0; i < 4; ++i) put(cache, std::to_string(i), 5 * kMiB);
  std::vector<std::shared_ptr<CacheFile>> open;
  for (int i = 0; i < 4; ++i) open.push_back(cache->find_file(object(std::to_string(i)), 5 * kMiB));
  const auto lowered = cache->holdings()->set_limit({.bytes = 12 * kMiB});
  REQUIRE(lowered);
  CHECK(lowered->used_bytes > 12 * kMiB);
  CHECK(reads_right(*open[2], "2"));
  open.clear();
  cache->flush();
  CHECK(cache->stats().used_bytes <= 12 * kMiB);
}
