#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "fakes.h"
#include "fs/open_route.h"

using namespace shardfs;
using namespace shardfs::fs;
using testing::World;

TEST_CASE("a complete file is opened in passthrough, all handles under one backing id") {
  World world;
  world.source(2).complete = true;
  const auto first = world.open(2);
  const auto second = world.open(2);
  CHECK(first.value.route == Route::kPassthrough);
  CHECK(second.value.route == Route::kPassthrough);
  CHECK(first.value.backing_id == second.value.backing_id);
  CHECK(first.value.handle != second.value.handle);
  CHECK(world.kernel.open_ids() == 1);
  CHECK(world.gauge("fs_backing_ids") == 1);
  CHECK(world.fetcher.pins.held == 1);
  CHECK(world.counter("fs_passthrough_open_bytes") == 2000000);
  CHECK(world.counter("fs_opens", "passthrough") == 2);

  world.fs->release(first.value.handle);
  CHECK(world.kernel.open_ids() == 1);
  CHECK(world.fetcher.pins.held == 1);
  world.fs->release(second.value.handle);
  CHECK(world.kernel.open_ids() == 0);
  CHECK(world.fetcher.pins.held == 0);
  CHECK(world.source(2).open_handles == 0);
  CHECK(world.gauges_are_zero());

  // A second release of the same handle changes nothing.
  world.fs->release(second.value.handle);
  CHECK(world.source(2).open_handles == 0);
  CHECK(world.gauges_are_zero());
}

TEST_CASE("small files stay with the daemon, complete or not, and keep their nodeid") {
  World world;
  for (const bool small : {true, false}) {
    const NodeId node = small ? 20 : 21;
    world.tree.add(node, 1, small ? "small" : "large", tree::Kind::kFile, kPassthroughFromBytes - (small ? 1 : 0));
    const auto before = world.open(node);
    CHECK(before.value.route == Route::kDaemon);
    world.source(node).complete = true;
    world.fetcher.complete(world.tree.node(node).info);
    CHECK(world.tree.retired == (small ? std::vector<NodeId>{} : std::vector<NodeId>{node}));
    world.fs->release(before.value.handle);
    CHECK(world.open(node).value.route == (small ? Route::kDaemon : Route::kPassthrough));
  }
}

TEST_CASE("while a cached handle is open, the node stays cached; the next lookup's node opens in passthrough") {
  World world;
  const auto cached = world.open(2);
  CHECK(cached.value.route == Route::kDaemon);

  world.source(2).complete = true;
  world.fetcher.complete(world.tree.node(2).info);
  CHECK(world.tree.retired == std::vector<NodeId>{2});
  REQUIRE(world.kernel.expired.size() == 1);
  CHECK(world.kernel.expired[0] == std::pair<NodeId, std::string>(1, "a"));

  CHECK(world.open(2).value.route == Route::kDaemon);  // the old nodeid
  const auto entry = world.lookup(1, "a");
  CHECK(entry.value.node != 2);
  CHECK(entry.value.attributes.st_ino == 1002);
  const auto passed = world.open(entry.value.node);
  CHECK(passed.value.route == Route::kPassthrough);
  CHECK(world.read(cached.value.handle, 0, 3).value ==
        std::string{testing::byte_at(0), testing::byte_at(1), testing::byte_at(2)});
  CHECK(world.tree.retired.size() == 1);
}

TEST_CASE("a file that another mount completed is noticed at an open that is held cached") {
  World world;
  world.open(2);
  world.open(2);
  CHECK(world.tree.retired.empty());
  world.source(2).complete = true;
  CHECK(world.open(2).value.route == Route::kDaemon);
  CHECK(world.tree.retired == std::vector<NodeId>{2});
  world.open(2);
  CHECK(world.tree.retired.size() == 1);
}

TEST_CASE("a file that completes while its first open is being decided is not forgotten") {
  World world;
  auto& source = world.source(2);
  source.in_backing = [&] { world.fetcher.complete(world.tree.node(2).info); };  // before the count is raised
  CHECK(world.open(2).value.route == Route::kDaemon);
  CHECK(world.tree.retired == std::vector<NodeId>{2});
}

TEST_CASE("opens that come while the first one registers take its route") {
  World world;
  auto& source = world.source(2);
  source.complete = true;
  std::vector<OpenReply> others;
  source.in_backing = [&] {
    source.in_backing = nullptr;
    for (int i = 0; i < 3; ++i) {
      world.fs->open(2, O_RDONLY, {}, [&](Reply<OpenReply> reply) { others.push_back(reply.value); });
    }
    CHECK(others.empty());
  };
  const auto first = world.open(2);
  REQUIRE(others.size() == 3);
  for (const auto& other : others) {
    CHECK(other.route == Route::kPassthrough);
    CHECK(other.backing_id == first.value.backing_id);
    world.fs->release(other.handle);
  }
  CHECK(world.kernel.open_ids() == 1);
  world.fs->release(first.value.handle);
  CHECK(world.kernel.open_ids() == 0);
  CHECK(world.gauges_are_zero());
}

TEST_CASE("what the kernel can't take is served by the daemon") {
  World world;
  world.source(2).complete = true;
  SUBCASE("no passthrough") { world.kernel.works = false; }
  SUBCASE("refused") { world.kernel.refuse = true; }
  SUBCASE("a cache file of another length") { world.source(2).wrong_size = 1; }
  const auto opened = world.open(2);
  CHECK(opened.value.route == Route::kDaemon);
  CHECK(opened.value.backing_id == 0);
  CHECK(world.fetcher.pins.held == 0);
  world.fetcher.complete(world.tree.node(2).info);
  world.open(2);
  CHECK(world.tree.retired.empty());  // a new nodeid would not help
  CHECK(world.counter("fs_opens", "daemon") == 2);
}

TEST_CASE("a changed object is asked for anew") {
  World world;
  world.open(2);
  world.fetcher.changed(world.tree.node(2).info);
  CHECK(world.tree.expired == std::vector<NodeId>{2});
  CHECK(world.kernel.expired.size() == 1);
  auto other = world.tree.node(2).info;
  other.etag = "\"else\"";
  world.fetcher.changed(other);
  CHECK(world.tree.expired.size() == 1);
}

TEST_CASE("a name is not expired while a lookup in its directory is under way") {
  World world;
  world.open(2);
  world.tree.hold = true;
  int answers = 0;
  world.fs->lookup(1, "b", [&](const auto&) { ++answers; });
  const Cancel cancel = world.fs->lookup(1, "c", [&](const auto&) { ++answers; });
  world.fs->lookup(4, "other directory", [&](const auto&) { ++answers; });
  world.fetcher.complete(world.tree.node(2).info);
  CHECK(world.tree.retired.size() == 1);
  CHECK(world.kernel.expired.empty());
  cancel();
  CHECK(world.kernel.expired.empty());
  SUBCASE("answered") { world.tree.release_all(); }
  SUBCASE("the end") { world.fs->shut_down(); }
  CHECK(answers == 3);
  CHECK(world.kernel.expired == std::vector<std::pair<NodeId, std::string>>{{1, "a"}});
}

TEST_CASE("the counting rule under eight threads") {
  World world;
  constexpr int kFiles = 4;
  for (NodeId node = 10; node < 10 + kFiles; ++node) {
    world.tree.add(node, 1, "f" + std::to_string(node), tree::Kind::kFile, 1 << 20);
  }
  // What the kernel enforces: never both routes on one inode, one backing id an inode.
  struct Inode {
    std::mutex mutex;
    int cached = 0, passthrough = 0, id = 0;
  };
  std::vector<Inode> inodes(kFiles);
  std::atomic<int> broken{0}, opens{0};
  auto work = [&](unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<std::pair<int, OpenReply>> held;
    for (int i = 0; i < 3000; ++i) {
      const int file = static_cast<int>(random() % kFiles);
      if (random() % 16 == 0) world.source(10 + static_cast<NodeId>(file)).complete = random() % 2 == 0;
      if (held.size() < 3 && random() % 2 == 0) {
        // The reply is written under the inode's lock here, as the kernel applies them one after the other.
        const auto reply = world.open(10 + static_cast<NodeId>(file));
        if (reply.error != 0) ++broken;
        Inode& inode = inodes[static_cast<size_t>(file)];
        std::lock_guard lock(inode.mutex);
        ++opens;
        if (reply.value.route == Route::kPassthrough) {
          if (inode.cached > 0 || (inode.passthrough > 0 && inode.id != reply.value.backing_id)) ++broken;
          ++inode.passthrough;
          inode.id = reply.value.backing_id;
        } else {
          if (inode.passthrough > 0) ++broken;
          ++inode.cached;
        }
        held.emplace_back(file, reply.value);
      } else if (!held.empty()) {
        const auto [open_file, reply] = held.back();
        held.pop_back();
        {
          Inode& inode = inodes[static_cast<size_t>(open_file)];
          std::lock_guard lock(inode.mutex);
          --(reply.route == Route::kPassthrough ? inode.passthrough : inode.cached);
        }
        world.fs->release(reply.handle);
      }
    }
    for (const auto& [open_file, reply] : held) {
      {
        std::lock_guard lock(inodes[static_cast<size_t>(open_file)].mutex);
        --(reply.route == Route::kPassthrough ? inodes[static_cast<size_t>(open_file)].passthrough
                                              : inodes[static_cast<size_t>(open_file)].cached);
      }
      world.fs->release(reply.handle);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back(work, i + 1);
  for (auto& thread : threads) thread.join();
  CHECK(broken == 0);
  CHECK(opens > 1000);
  CHECK(world.counter("fs_opens", "passthrough") > 0);
  CHECK(world.counter("fs_opens", "daemon") > 0);
  CHECK(world.kernel.open_ids() == 0);
  CHECK(world.kernel.wrong_closes == 0);
  CHECK(world.fetcher.pins.held == 0);
  for (NodeId node = 10; node < 10 + kFiles; ++node) CHECK(world.source(node).open_handles == 0);
  CHECK(world.gauges_are_zero());
}
