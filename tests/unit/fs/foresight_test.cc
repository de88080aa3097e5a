// What is asked of fetch before files are opened, by the order of opens and hints.
#include "fs/foresight.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "fakes.h"
#include "fs/meters.h"

using namespace shardfs;
using namespace shardfs::fs;
using namespace shardfs::fs::testing;

namespace {

using Names = std::vector<std::pair<std::string, uint64_t>>;
using Texts = std::vector<std::string>;
constexpr uint64_t kMiB = 1 << 20;

std::string numbered(size_t i, const char* ending = ".jpg") {
  std::string digits = std::to_string(i);
  return std::string(5 - digits.size(), '0') + digits + ending;
}

Names files(size_t count, uint64_t size) {
  Names names;
  for (size_t i = 0; i < count; ++i) names.emplace_back(numbered(i), size);
  return names;
}

class FakeCache final : public cache::Cache {
 public:
  std::shared_ptr<cache::CacheFile> open_file(const store::ObjectId&, uint64_t) override { return nullptr; }
  std::shared_ptr<cache::CacheFile> find_file(const store::ObjectId&, uint64_t) override { return nullptr; }
  bool has_file(const store::ObjectId&, uint64_t) override { return false; }
  void touch(const store::ObjectId&) override {}
  cache::CacheStats stats() const override {
    cache::CacheStats stats;
    stats.free_bytes = free_bytes;
    return stats;
  }
  void flush() override {}

  uint64_t free_bytes = 1ull << 40;
};

struct At {
  explicit At(bool with_cache = true, uint64_t memory_bytes = 256 * kMiB)
      : foresight(std::make_shared<Foresight>("", memory_bytes, tree, fetcher, with_cache ? &cache : nullptr, executor,
                                              meters)) {}
  ~At() { foresight->close(); }

  store::ObjectInfo info(const std::string& path, uint64_t size) const { return {path, size, "v1", {}, {}, false}; }
  FakeSource& source(const std::string& path, uint64_t size) { return *fetcher.source(info(path, size)); }
  bool open(const std::string& path, uint64_t size, uint32_t process = 1, bool passthrough = false) {
    return foresight->on_open(source(path, size), process, passthrough);
  }
  /// A reader that goes through it to its end.
  void scan(const std::string& path, uint64_t size, uint32_t process = 1) {
    open(path, size, process);
    foresight->on_scan(info(path, size));
  }
  /// What was asked for of one file.
  std::vector<FakeSource::Prefetch>& asked(const std::string& path, uint64_t size) {
    return source(path, size).prefetches;
  }
  /// The files of a directory of equal ones that were asked for.
  std::vector<size_t> fetched(const std::string& directory, size_t count, uint64_t size) {
    std::vector<size_t> found;
    for (size_t i = 0; i < count; ++i) {
      const auto& prefetches = asked(directory + "/" + numbered(i), size);
      CHECK(prefetches.size() <= 1);
      if (prefetches.empty()) continue;
      CHECK(prefetches[0].range == base::ByteRange{0, size});
      CHECK(prefetches[0].cause == fetch::Cause::kSmallFiles);
      found.push_back(i);
    }
    return found;
  }
  /// Ends what is under way of it, until nothing more comes.
  size_t settle(const std::string& directory, size_t count, uint64_t size) {
    size_t settled = 0;
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < count; ++i) {
        for (auto& prefetch : asked(directory + "/" + numbered(i), size)) {
          if (!prefetch.done) continue;
          std::exchange(prefetch.done, nullptr)();
          ++settled;
          more = true;
        }
      }
    }
    return settled;
  }

  base::Metrics metrics;
  Meters meters{metrics};
  FakeTree tree;
  FakeFetcher fetcher;
  FakeCache cache;
  InlineExecutor executor;
  std::shared_ptr<Foresight> foresight;
};

std::vector<size_t> numbers(size_t begin, size_t end) {
  std::vector<size_t> made;
  for (size_t i = begin; i < end; ++i) made.push_back(i);
  return made;
}

}  // namespace

TEST_CASE("small files in listed order: ahead of the reader, a bounded number at once, each once") {
  At at;
  at.tree.know("d", files(1000, 110000));
  for (size_t i = 0; i < 3; ++i) at.open("d/" + numbered(i), 110000);
  CHECK(at.fetched("d", 1000, 110000).empty());
  at.open("d/" + numbered(3), 110000);
  CHECK(at.fetched("d", 1000, 110000) == numbers(4, 20));
  for (size_t i = 4; i < 10; ++i) at.open("d/" + numbered(i), 110000);
  CHECK(at.fetched("d", 1000, 110000) == numbers(4, 4 + 96));  // not all of 100
  std::exchange(at.asked("d/" + numbered(4), 110000)[0].done, nullptr)();
  CHECK(at.fetched("d", 1000, 110000) == numbers(4, 4 + 97));
  for (size_t i = 10; i < 1000; ++i) {
    at.settle("d", 1000, 110000);
    at.open("d/" + numbered(i), 110000);
  }
  CHECK(at.fetched("d", 1000, 110000) == numbers(4, 1000));
  CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 996);
  CHECK(at.metrics.counter("fs_foreseen", "small_files_opened").value() == 996);
}

TEST_CASE("files opened at random: the directory whole, if it fits what the cache has free") {
  for (const bool fits : {true, false}) {
    At at;
    at.cache.free_bytes = fits ? 200 * 10000 : 150 * 10000;
    at.tree.know("d", files(200, 10000));
    for (size_t i = 0; i < 8; ++i) at.open("d/" + numbered((i * 67 + 31) % 200), 10000);
    at.settle("d", 200, 10000);
    CHECK(at.fetched("d", 200, 10000).size() == (fits ? 192 : 0));
  }
}

TEST_CASE("what is no small file is passed over: directories, shards, empty and deleted ones") {
  At at;
  Names names = files(20, 10000);
  names[10].second = 0;  // a directory
  names[11].second = 64 * kMiB;
  at.tree.know("d", names);
  at.tree.gone.insert("d/" + numbered(12));
  for (size_t i = 0; i < 8; ++i) at.open("d/" + numbered(i), 10000);
  at.settle("d", 20, 10000);
  CHECK(at.fetched("d", 20, 10000) == std::vector<size_t>{4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 18, 19});
}

TEST_CASE("what is complete in the cache asks for nothing") {
  At at;
  at.tree.know("d", files(100, 10000));
  for (size_t i = 0; i < 50; ++i) {
    at.source("d/" + numbered(i), 10000).cached = 10000;
    at.open("d/" + numbered(i), 10000, 1, i % 2 == 0);
  }
  CHECK(at.fetched("d", 100, 10000).empty());
}

TEST_CASE("without a cache: in order only, and no more than a quarter of the memory waits for the reader") {
  At at(false, 64 * kMiB);
  at.tree.know("d", files(1000, 1000000));
  for (size_t i = 0; i < 8; ++i) at.open("d/" + numbered(i), 1000000);
  at.settle("d", 1000, 1000000);
  CHECK(at.fetched("d", 1000, 1000000) == numbers(4, 4 + 20));  // 16 buffers, and 4 that were opened since
  for (size_t i = 8; i < 500; ++i) {
    at.open("d/" + numbered(i), 1000000);
    at.settle("d", 1000, 1000000);
  }
  CHECK(at.fetched("d", 1000, 1000000) == numbers(4, 500 + 16));

  At random(false, 64 * kMiB);
  random.tree.know("d", files(1000, 1000000));
  for (size_t i = 0; i < 20; ++i) random.open("d/" + numbered((i * 367 + 31) % 1000), 1000000);
  CHECK(random.fetched("d", 1000, 1000000).empty());
}

TEST_CASE("without a cache what waits in vain makes room when its reader goes elsewhere") {
  At at(false, 64 * kMiB);
  at.tree.know("a", files(100, 1000000));
  at.tree.know("b", files(100, 1000000));
  for (size_t i = 0; i < 4; ++i) at.open("a/" + numbered(i), 1000000);
  at.settle("a", 100, 1000000);
  CHECK(at.fetched("a", 100, 1000000) == numbers(4, 20));
  for (size_t i = 0; i < 8; ++i) {
    at.open("b/" + numbered(i), 1000000);
    at.settle("b", 100, 1000000);
  }
  CHECK(at.source("a/" + numbered(4), 1000000).cancelled_prefetches == 1);
  CHECK_FALSE(at.fetched("b", 100, 1000000).empty());
}

TEST_CASE("an image folder, shuffled over its classes: all of them, with names asked for where they are not known") {
  for (const bool listed : {true, false}) {
    CAPTURE(listed);
    At at;
    Names classes;
    for (size_t c = 0; c < 40; ++c) {
      const std::string name = "class" + numbered(c, "");
      classes.emplace_back(name, 0);
      if (listed || c < 8) {
        at.tree.know("train/" + name, files(5, 10000));
      } else {
        at.tree.unlisted["train/" + name] = FakeTree::listing_of(files(5, 10000));
      }
    }
    at.tree.know("train", classes);
    for (size_t c = 0; c < 7; ++c) at.open("train/class" + numbered(c, "") + "/" + numbered(c % 5), 10000);
    CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 0);
    CHECK(at.tree.asked.empty());
    at.open("train/class" + numbered(7, "") + "/" + numbered(2), 10000);
    size_t fetched = 0;
    for (size_t round = 0; round < 3; ++round) {
      for (size_t c = 0; c < 40; ++c) at.settle("train/class" + numbered(c, ""), 5, 10000);
    }
    for (size_t c = 0; c < 40; ++c) fetched += at.fetched("train/class" + numbered(c, ""), 5, 10000).size();
    CHECK(fetched == 40 * 5 - 8);
    CHECK(at.tree.asked.size() == (listed ? 0 : 32));
  }
}

TEST_CASE("siblings that do not fit the free cache together are left alone") {
  At at;
  Names classes;
  for (size_t c = 0; c < 40; ++c) {
    classes.emplace_back("class" + numbered(c, ""), 0);
    at.tree.know("class" + numbered(c, ""), files(20, 10000));
  }
  at.tree.know("", classes);
  at.cache.free_bytes = 30 * 20 * 10000;
  for (size_t c = 0; c < 16; ++c) at.open("class" + numbered(c, "") + "/" + numbered(c % 5), 10000);
  CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 0);
}

TEST_CASE("a listing that changed is begun anew, an equal one goes on") {
  At at;
  at.tree.know("d", files(100, 10000));
  for (size_t i = 0; i < 4; ++i) at.open("d/" + numbered(i), 10000);
  CHECK(at.fetched("d", 100, 10000) == numbers(4, 20));
  at.tree.know("d", files(100, 10000));  // another object of the same content
  at.open("d/" + numbered(4), 10000);
  CHECK(at.fetched("d", 100, 10000) == numbers(4, 30));
  at.tree.know("d", files(50, 10000));
  at.open("d/" + numbered(49), 10000);
  at.open("d/" + numbered(48), 10000);
  CHECK(at.fetched("d", 100, 10000) == numbers(4, 30));
}

TEST_CASE("a directory of a million files: what is fetched is bounded") {
  At at;
  at.tree.know("d", [] {
    Names names;
    for (size_t i = 0; i < 1000000; ++i) {
      std::string digits = std::to_string(i);
      names.emplace_back(std::string(7 - digits.size(), '0') + digits, 10000);
    }
    return names;
  }());
  for (size_t i = 0; i < 8; ++i) at.open("d/0" + std::to_string(100000 + i * 7919), 10000);
  CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 96);
}

TEST_CASE("unknown directories, and names that are not listed, do nothing") {
  At at;
  at.tree.know("d", files(10, 10000));
  for (size_t i = 0; i < 20; ++i) at.open("unknown/" + numbered(i), 10000);
  for (size_t i = 20; i < 40; ++i) at.open("d/" + numbered(i), 10000);
  CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 0);
  CHECK(at.tree.asked.empty());
}

namespace {

constexpr uint64_t kShardBytes = 100 * kMiB;
constexpr base::ByteRange kFirstWindow{0, 16 * kMiB};
constexpr base::ByteRange kMore{16 * kMiB, 64 * kMiB};  // before a guess came true
constexpr base::ByteRange kInMemory{0, 64 * kMiB};      // a quarter of the memory
constexpr base::ByteRange kRest{16 * kMiB, kShardBytes};

std::string shard(size_t i) { return "d/" + numbered(i, ".tar"); }

Names shards(size_t count) {
  Names names;
  for (size_t i = 0; i < count; ++i) names.emplace_back(numbered(i, ".tar"), kShardBytes);
  return names;
}

std::vector<base::ByteRange> ranges(const std::vector<FakeSource::Prefetch>& prefetches) {
  std::vector<base::ByteRange> made;
  for (const auto& prefetch : prefetches) {
    CHECK(prefetch.cause == fetch::Cause::kNextShard);
    made.push_back(prefetch.range);
  }
  return made;
}

}  // namespace

TEST_CASE("shards in order: a part of the next one; once a guess came true all of it; what memory holds without room") {
  for (const bool room : {true, false}) {
    At at;
    at.cache.free_bytes = room ? 10 * kShardBytes : kShardBytes / 4;
    at.tree.know("d", shards(10));
    for (size_t i = 0; i < 9; ++i) {
      CHECK(at.open(shard(i), kShardBytes));
      auto& next = at.asked(shard(i + 1), kShardBytes);
      CHECK(next.empty());  // nobody goes through this one yet
      at.foresight->on_scan(at.info(shard(i), kShardBytes));
      if (room) {
        REQUIRE(ranges(next) == std::vector{kFirstWindow, i == 0 ? kMore : kRest});
      } else {
        REQUIRE(ranges(next) == std::vector{kInMemory});
      }
      std::exchange(next[0].done, nullptr)();
      at.foresight->on_close(at.info(shard(i), kShardBytes));
      CHECK(at.source(shard(i + 1), kShardBytes).cancelled_prefetches == 0);
    }
  }
}

TEST_CASE("guesses that do not come true are given up, and never pile up") {
  At at;
  at.tree.know("d", shards(200));
  std::vector<size_t> order = numbers(0, 200);
  std::shuffle(order.begin() + 2, order.end(), std::mt19937(3));
  for (const size_t i : order) {
    at.scan(shard(i), kShardBytes);
    at.foresight->on_close(at.info(shard(i), kShardBytes));
    size_t standing = 0;
    for (size_t j = 0; j < 200; ++j) {
      FakeSource& source = at.source(shard(j), kShardBytes);
      standing += !source.prefetches.empty() && source.cancelled_prefetches == 0 && source.reads == 0;
      if (j == i) ++source.reads;
    }
    CHECK(standing <= 4);
  }
  CHECK(at.metrics.counter("fs_foreseen", "next_shards").value() < 20);
}

TEST_CASE("a shard that is opened for every sample, or read here and there, makes nothing expected") {
  At at;
  at.tree.know("d", shards(10));
  for (int i = 0; i < 100; ++i) {
    at.open(shard(0), kShardBytes);
    at.foresight->on_close(at.info(shard(0), kShardBytes));
  }
  CHECK(at.asked(shard(1), kShardBytes).empty());
}

TEST_CASE("a look at a shard before it is read does not hide what comes next") {
  At at;
  at.tree.know("d", shards(10));
  at.open(shard(0), kShardBytes);
  at.foresight->on_close(at.info(shard(0), kShardBytes));
  at.scan(shard(0), kShardBytes);
  CHECK(ranges(at.asked(shard(1), kShardBytes)) == std::vector{kFirstWindow, kMore});
}

TEST_CASE("what the kernel reads by itself is not seen: its open is enough") {
  At at;
  at.tree.know("d", shards(10));
  at.open(shard(0), kShardBytes, 1, true);
  CHECK(ranges(at.asked(shard(1), kShardBytes)) == std::vector{kFirstWindow, kMore});
}

TEST_CASE("several processes read one shard at once: nothing is expected, until they do it again") {
  At at;
  at.tree.know("d", shards(10));
  for (size_t i = 0; i < 3; ++i) {
    for (uint32_t process = 1; process <= 8; ++process) at.open(shard(i), kShardBytes, process);
    at.foresight->on_scan(at.info(shard(i), kShardBytes));
    for (uint32_t process = 1; process <= 8; ++process) at.foresight->on_close(at.info(shard(i), kShardBytes));
    CHECK(at.asked(shard(i + 1), kShardBytes).empty() == (i == 0));
  }
}

TEST_CASE("without a cache: first windows only, a quarter of the memory at most") {
  At at(false, 64 * kMiB);
  at.tree.know("d", shards(40));
  for (uint32_t i = 0; i < 4; ++i) at.scan(shard(i), kShardBytes, 1 + i);
  size_t begun = 0;
  for (size_t i = 4; i < 40; ++i) {
    auto& prefetches = at.asked(shard(i), kShardBytes);
    begun += prefetches.size();
    for (auto& prefetch : prefetches) {
      if (prefetch.done) std::exchange(prefetch.done, nullptr)();
    }
    CHECK(prefetches.size() <= 1);
  }
  CHECK(begun == 1);
}

TEST_CASE("a hint is begun before anything is opened, and followed") {
  At at;
  at.tree.know("d", shards(50));
  const Texts paths = {"d/00030.tar", "/d/00007.tar", "d/00041.tar", "d/none", "d/00002.tar"};
  const auto reply = at.foresight->hint(paths, false);
  CHECK(reply.accepted == 4);
  CHECK(reply.unknown == 1);
  CHECK(ranges(at.asked(shard(30), kShardBytes)) == std::vector{kFirstWindow, kRest});
  at.open(shard(30), kShardBytes);
  CHECK(ranges(at.asked(shard(7), kShardBytes)) == std::vector{kFirstWindow, kRest});
  at.open(shard(7), kShardBytes);
  CHECK(ranges(at.asked(shard(41), kShardBytes)) == std::vector{kFirstWindow, kRest});
}

TEST_CASE("hinted small files are begun many at once, each whole") {
  At at;
  at.tree.know("d", files(500, 100000));
  Texts paths;
  for (size_t i = 0; i < 500; ++i) paths.push_back("d/" + numbered((i * 37) % 500));
  CHECK(at.foresight->hint(paths, false).accepted == 500);
  size_t begun = 0;
  for (size_t i = 0; i < 500; ++i) {
    const auto& prefetches = at.asked(paths[i], 100000);
    begun += prefetches.size();
    for (const auto& prefetch : prefetches) CHECK(prefetch.range == base::ByteRange{0, 100000});
    CHECK(prefetches.empty() == (i >= 64));
  }
  CHECK(begun == 64);
}

TEST_CASE("a hint that comes in two requests is one list; another takes its place") {
  constexpr uint64_t kSize = 20 * kMiB;
  At at;
  at.tree.know("d", files(20, kSize));
  const std::vector<size_t> order = {13, 4, 17, 2, 9, 11, 0, 6};
  Texts paths;
  for (const size_t i : order) paths.push_back("d/" + numbered(i));
  const auto begun = [&] {
    std::vector<size_t> found;
    for (size_t at_list = 0; at_list < order.size(); ++at_list) {
      if (!at.asked(paths[at_list], kSize).empty()) found.push_back(at_list);
    }
    return found;
  };
  // In two requests, as a long list comes.
  CHECK(at.foresight->hint(std::span(paths).first(5), false).accepted == 5);
  CHECK(at.foresight->hint(std::span(paths).subspan(5), true).accepted == 3);
  CHECK(begun() == numbers(0, 1));
  CHECK(at.asked(paths[0], kSize)[0].cause == fetch::Cause::kNextShard);
  for (size_t i = 0; i < paths.size(); ++i) {
    at.open(paths[i], kSize);
    const auto now = begun();
    CHECK(std::count(now.begin(), now.end(), i + 1) == (i + 1 < paths.size() ? 1 : 0));
    CHECK(now.size() <= i + 3);
    at.foresight->on_close(at.info(paths[i], kSize));
  }
  // Another hint takes the place of the first.
  const Texts other = {"d/" + numbered(19), "d/" + numbered(18)};
  CHECK(at.foresight->hint(other, false).accepted == 2);
  CHECK(ranges(at.asked(other[0], kSize)) == std::vector{kFirstWindow, {16 * kMiB, kSize}});
}

TEST_CASE("hints that name nothing are counted and ask nobody") {
  At at;
  at.tree.know("d", {{"a", 10000}, {"sub", 0}});
  const Texts paths = {"d/none", "d/sub", "elsewhere/x", "", "/", "d"};
  const auto reply = at.foresight->hint(paths, false);
  CHECK(reply.accepted == 0);
  CHECK(reply.unknown == 6);
  CHECK(at.tree.asked.empty());
  CHECK(at.fetcher.opens == 0);
}

TEST_CASE("after close nothing begins, and late ends are harmless") {
  At at;
  at.tree.know("d", files(100, 10000));
  for (size_t i = 0; i < 4; ++i) at.open("d/" + numbered(i), 10000);
  at.foresight->close();
  CHECK(at.settle("d", 100, 10000) == 16);
  for (size_t i = 4; i < 50; ++i) at.open("d/" + numbered(i), 10000);
  CHECK(at.metrics.counter("fs_foreseen", "small_files").value() == 16);
}
