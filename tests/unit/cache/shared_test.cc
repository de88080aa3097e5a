// Several mounts on one folder: in one process, in two, and after one was killed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

namespace {

// A second mount of this process: its own descriptors, so locks count between the two.
void check_sharing(TestCache& a, TestCache& b) {
  const uint64_t size = 2 * kMiB;
  const auto mine = a->open_file(object("k"), size);
  const auto theirs = b->open_file(object("k"), size);
  REQUIRE(mine);
  REQUIRE(theirs);
  REQUIRE(mine->begin_fill(0) == FillAnswer::kGranted);
  CHECK(theirs->begin_fill(0) == FillAnswer::kBusy);
  CHECK(theirs->begin_fill(1) == FillAnswer::kGranted);
  CHECK(nearly(a->stats().used_bytes, b->stats().used_bytes));
  REQUIRE(mine->write_block(0, block_of("k", size, 0)));
  CHECK(theirs->begin_fill(0) == FillAnswer::kResident);
  REQUIRE(theirs->write_block(1, block_of("k", size, 1)));
  // Whoever comes last finishes, also what the other one wrote; both see it.
  REQUIRE(*mine->finish());
  CHECK(theirs->complete());
  CHECK(theirs->verified());
  CHECK(reads_right(*theirs, "k"));
  CHECK(nearly(a->stats().used_bytes, b->stats().used_bytes));
}

}  // namespace

TEST_CASE("two mounts in one process: one fill right, one accounting") {
  const TestFolder folder;
  TestCache a(folder);
  TestCache b(folder);
  check_sharing(a, b);
  CHECK(a.gauge("cache_reserved_bytes") == 0);
  CHECK(b.gauge("cache_reserved_bytes") == 0);
}

TEST_CASE("two mounts that make the same files at the same time both get them") {
  const TestFolder folder;
  TestCache a(folder);
  TestCache b(folder);
  constexpr int kFiles = 300;
  std::atomic<int> at{0}, refused{0};
  // In step: both begin with a file at the same moment.
  const auto open_all = [&](TestCache& cache) {
    for (int i = 0; i < kFiles; ++i) {
      at.fetch_add(1);
      while (at.load() < 2 * (i + 1)) {
      }
      if (!cache->open_file(object("k" + std::to_string(i)), kMiB)) ++refused;
    }
  };
  std::thread other([&] { open_all(b); });
  open_all(a);
  other.join();
  CHECK(refused.load() == 0);
  CHECK(folder.files(".map").size() == kFiles);
}

TEST_CASE("two processes: one fill right, blocks and completeness are seen at once") {
  const TestFolder folder;
  TestCache cache(folder);
  Child child(folder, 64 * kMiB);
  const auto file = cache->open_file(object("k"), 3 * kMiB);
  REQUIRE(child.ask("open k " + std::to_string(3 * kMiB)) == "ok");
  REQUIRE(child.ask("begin k 0") == "granted");
  CHECK(file->begin_fill(0) == FillAnswer::kBusy);
  REQUIRE(child.ask("write k 0") == "ok");
  CHECK(file->has_block(0));
  REQUIRE(file->begin_fill(1) == FillAnswer::kGranted);
  CHECK(child.ask("begin k 1") == "busy");
  REQUIRE(file->write_block(1, block_of("k", 3 * kMiB, 1)));
  CHECK(nearly(std::stoull(child.ask("used")), cache->stats().used_bytes));
  CHECK(child.ask("fill k") == "ok");
  CHECK(file->complete());
  CHECK(reads_right(*file, "k"));
  CHECK(child.ask("check k") == "ok");
}

TEST_CASE("kill -9 of a mount frees its fills, its reservations and its pins") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  const uint64_t size = 3 * kMiB;
  auto file = cache->open_file(object("k"), size);
  const uint64_t before = cache->stats().used_bytes;
  Child child(folder, 8 * kMiB);
  REQUIRE(child.ask("open k " + std::to_string(size)) == "ok");
  REQUIRE(child.ask("open pinned " + std::to_string(size)) == "ok");
  REQUIRE(child.ask("fill pinned") == "ok");
  REQUIRE(child.ask("pin pinned") == "ok");
  for (const char* block : {"0", "1", "2"}) REQUIRE(child.ask(std::string("begin k ") + block) == "granted");
  CHECK(cache->stats().used_bytes > before + 6 * kMiB);
  CHECK(file->begin_fill(1) == FillAnswer::kBusy);
  child.kill();
  // There is no room until the dead one's reservation is returned; nothing is evicted for it.
  REQUIRE(file->begin_fill(1) == FillAnswer::kGranted);
  REQUIRE(file->write_block(1, block_of("k", size, 1)));
  cache->flush();
  CHECK(cache->stats().evicted_files == 0);
  const uint64_t after = cache->stats().used_bytes;
  CHECK(after > before + 4 * kMiB);
  CHECK(after < before + 4 * kMiB + 65536);  // the map of the other file, directories, the index
  REQUIRE(fill(*file, "k"));
  // The pin is gone: the other file can leave.
  file.reset();
  const auto big = cache->open_file(object("big"), 6 * kMiB);
  REQUIRE(big);
  CHECK(fill(*big, "big"));
  CHECK_FALSE(cache->find_file(object("pinned"), size));
}

TEST_CASE("what a killed mount wrote without finishing is punched out") {
  const TestFolder folder;
  TestCache cache(folder);
  const auto file = cache->open_file(object("k"), 4 * kMiB);
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  REQUIRE(file->write_block(0, block_of("k", 4 * kMiB, 0)));
  // As a mount leaves it that dies between writing the data and saying so.
  {
    base::UniqueFd fd(::open(folder.files(".data")[0].c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(cache.disk->write_at(fd.get(), bytes_of("junk", {0, kMiB}), 2 * kMiB));
  }
  CHECK(folder.allocated_bytes() >= 2 * kMiB);
  Child child(folder, 64 * kMiB);
  REQUIRE(child.ask("open k " + std::to_string(4 * kMiB)) == "ok");
  REQUIRE(child.ask("begin k 1") == "granted");
  child.kill();
  cache->flush();
  CHECK(folder.allocated_bytes() < 2 * kMiB);
  REQUIRE(fill(*file, "k"));
  CHECK(reads_right(*file, "k"));
}

TEST_CASE("a pin of another process keeps its file; without it the longest unused leaves") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  Child child(folder, 8 * kMiB);
  REQUIRE(child.ask("open a " + std::to_string(3 * kMiB)) == "ok");
  REQUIRE(child.ask("fill a") == "ok");
  REQUIRE(child.ask("pin a") == "ok");
  REQUIRE(child.ask("close a") == "ok");
  REQUIRE(child.ask("flush") == "ok");
  REQUIRE(fill(*cache->open_file(object("b"), 3 * kMiB), "b"));
  const auto c = cache->open_file(object("c"), 3 * kMiB);
  REQUIRE(c);
  REQUIRE(fill(*c, "c"));
  CHECK(cache->find_file(object("a"), 3 * kMiB));
  CHECK_FALSE(cache->find_file(object("b"), 3 * kMiB));
  CHECK(cache->stats().evicted_files == 1);
  const auto d = cache->open_file(object("d"), 3 * kMiB);
  REQUIRE(d);
  CHECK_FALSE(fill(*d, "d"));  // a is pinned by the child, c is open here
  REQUIRE(child.ask("unpin a") == "ok");
  cache.clock.advance(std::chrono::seconds(2));
  CHECK(fill(*d, "d"));
  CHECK_FALSE(cache->find_file(object("a"), 3 * kMiB));
  CHECK(reads_right(*c, "c"));
}

TEST_CASE("a file that a reader maps past every handle is not evicted") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  auto a = cache->open_file(object("a"), 3 * kMiB);
  REQUIRE(fill(*a, "a"));
  auto fd = a->backing_descriptor();
  REQUIRE(fd);
  void* const mapped = ::mmap(nullptr, 3 * kMiB, PROT_READ, MAP_SHARED, fd->get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  fd->reset();
  a.reset();
  auto b = cache->open_file(object("b"), 4 * kMiB);
  REQUIRE(b);
  CHECK_FALSE(fill(*b, "b"));
  CHECK(std::memcmp(mapped, bytes_of("a", {0, 3 * kMiB}).data(), 3 * kMiB) == 0);
  ::munmap(mapped, 3 * kMiB);
  cache.clock.advance(std::chrono::seconds(2));
  CHECK(fill(*b, "b"));
  CHECK_FALSE(cache->find_file(object("a"), 3 * kMiB));
}

TEST_CASE("an open file that nobody reads is let go of when nothing else can leave") {
  const TestFolder folder;
  TestCache cache(folder, 8 * kMiB);
  auto idle = cache->open_file(object("idle"), 4 * kMiB);
  REQUIRE(fill(*idle, "idle"));
  cache.clock.advance(std::chrono::minutes(10));
  const auto wanted = cache->open_file(object("wanted"), 4 * kMiB);
  REQUIRE(wanted);
  CHECK_FALSE(fill(*wanted, "wanted"));
  CHECK(idle->dead());
  CHECK_FALSE(idle->pin());
  CHECK(reads_right(*idle, "idle"));  // what is open stays readable
  CHECK_FALSE(cache->open_file(object("idle"), 4 * kMiB));
  idle.reset();  // the last one out removes it
  CHECK(folder.files(".data").size() == 1);
  CHECK(fill(*wanted, "wanted"));
}

TEST_CASE("each mount keeps to its own limit against what all use") {
  const TestFolder folder;
  TestCache big(folder, 64 * kMiB);
  TestCache small(folder, 8 * kMiB);
  std::vector<std::shared_ptr<CacheFile>> held;
  for (int i = 0; i < 3; ++i) {
    const std::string key = "big" + std::to_string(i);
    held.push_back(big->open_file(object(key), 4 * kMiB));
    REQUIRE(fill(*held.back(), key));
  }
  CHECK_FALSE(small->open_file(object("new"), kMiB));  // 12 MiB are used, by files that are open
  CHECK(big->open_file(object("new"), kMiB));
  held.clear();
  small.clock.advance(std::chrono::seconds(2));
  const auto file = small->open_file(object("new2"), kMiB);
  REQUIRE(file);
  CHECK(fill(*file, "new2"));
  CHECK(small->stats().used_bytes <= 8 * kMiB);
}
