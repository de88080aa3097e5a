#include "fs/file_system.h"

#include <doctest/doctest.h>
#include <sys/statvfs.h>

#include <thread>

#include "fakes.h"
#include "fs/handles.h"

using namespace shardfs;
using namespace shardfs::fs;
using testing::World;

namespace {

std::string bytes(uint64_t begin, uint64_t end) {
  std::string made;
  for (uint64_t i = begin; i < end; ++i) made += testing::byte_at(i);
  return made;
}

}  // namespace

TEST_CASE("attributes") {
  World world;
  world.options.uid = 7;
  world.options.gid = 8;
  world.restart();
  const auto file = world.lookup(1, "a");
  REQUIRE(file.error == 0);
  CHECK(file.value.node == 2);
  CHECK(file.value.valid_for == std::chrono::milliseconds(60000));
  const struct stat& shown = file.value.attributes;
  CHECK(shown.st_mode == (S_IFREG | 0444));
  CHECK(shown.st_ino == 1002);
  CHECK(shown.st_size == 1000000);
  CHECK(shown.st_blocks == 1954);
  CHECK(shown.st_nlink == 1);
  CHECK(shown.st_uid == 7);
  CHECK(shown.st_gid == 8);
  CHECK(shown.st_mtim.tv_sec == 1700000000);
  CHECK(shown.st_mtim.tv_nsec == 250000000);
  const auto directory = world.lookup(1, "d");
  CHECK(directory.value.attributes.st_mode == (S_IFDIR | 0555));
  CHECK(directory.value.attributes.st_nlink == 2);
  CHECK(world.tree.count(2) == 1);
  world.fs->forget(2, 1);
  CHECK(world.tree.count(2) == 0);
}

TEST_CASE("reads are clamped to the object") {
  World world;
  const auto opened = world.open(2);
  const HandleId handle = opened.value.handle;
  CHECK(world.read(handle, 0, 1000).value == bytes(0, 1000));
  CHECK(world.read(handle, 999990, 4096).value == bytes(999990, 1000000));
  CHECK(world.source(2).reads == 2);
  CHECK(world.read(handle, 1000000, 10).value.empty());
  CHECK(world.read(handle, UINT64_MAX, SIZE_MAX).value.empty());
  CHECK(world.read(handle, UINT64_MAX, SIZE_MAX).error == 0);
  CHECK(world.source(2).reads == 2);
  CHECK(world.counter("fs_read_bytes") == 1010);
  CHECK(world.metrics.histogram("fs_read_seconds").count() == 2);
  CHECK(world.metrics.histogram("fs_stall_seconds").count() == 0);
}

TEST_CASE("an empty file never goes to fetch") {
  World world;
  const auto opened = world.open(3);
  CHECK(opened.error == 0);
  CHECK(opened.value.route == Route::kDaemon);
  const auto read = world.read(opened.value.handle, 0, 4096);
  CHECK(read.error == 0);
  CHECK(read.value.empty());
  CHECK(world.fetcher.opens == 0);
  CHECK(world.fs->getxattr(3, "user.shardfs.cached_bytes").value == "0");
  CHECK(world.fetcher.opens == 0);
  world.fs->release(opened.value.handle);
  CHECK(world.gauges_are_zero());
}

TEST_CASE("a parked read: answered once, by the data, a cancel or the end") {
  World world;
  const auto opened = world.open(2);
  auto& source = world.source(2);
  source.hold = true;
  int answers = 0;
  Reply<std::string> got;
  const Cancel cancel = world.fs->read(opened.value.handle, 5, 10, {}, [&](const Reply<fetch::Pieces>& reply) {
    ++answers;
    got = World::text(reply);
  });
  REQUIRE(cancel);
  CHECK(answers == 0);
  CHECK(world.gauge("fs_parked_operations") == 1);
  SUBCASE("data") {
    world.clock.advance(std::chrono::milliseconds(5));
    source.parked[0]->answer();
    CHECK(got.value == bytes(5, 15));
    CHECK(world.metrics.histogram("fs_stall_seconds").count() == 1);
    CHECK(world.metrics.histogram("fs_stall_seconds").sum() == std::chrono::milliseconds(5));
  }
  SUBCASE("cancel") {
    cancel();
    CHECK(got.error == EINTR);
    source.parked[0]->answer();
  }
  SUBCASE("the end") {
    world.fs->shut_down();
    CHECK(got.error == EIO);
    source.parked[0]->answer();
  }
  cancel();
  world.fs->shut_down();
  CHECK(answers == 1);
  CHECK(world.gauge("fs_parked_operations") == 0);
}

TEST_CASE("cancelled by the fetcher at the end is EIO, not a signal") {
  World world;
  const auto opened = world.open(2);
  world.fs->shut_down();
  CHECK(world.read(opened.value.handle, 0, 10).error == EIO);
  CHECK(world.lookup(1, "a").error == EIO);
  CHECK(world.open(2).error == EIO);
  CHECK(world.fs->readdir(1, 0, false, [](const auto&) { return true; }) == EIO);
  world.fs->release(opened.value.handle);
  CHECK(world.gauges_are_zero());
}

TEST_CASE("shut_down answers every kind of parked operation; late answers are dropped") {
  World world;
  const auto opened = world.open(2);
  world.source(2).hold = true;
  world.tree.hold = true;
  std::vector<int> errors;
  world.fs->lookup(1, "a", [&](auto reply) { errors.push_back(reply.error); });
  world.fs->getattr(2, [&](auto reply) { errors.push_back(reply.error); });
  world.fs->open(2, O_RDONLY, {}, [&](auto reply) { errors.push_back(reply.error); });
  world.fs->opendir(1, [&](auto reply) { errors.push_back(reply.error); });
  world.fs->read(opened.value.handle, 0, 10, {}, [&](auto reply) { errors.push_back(reply.error); });
  CHECK(world.gauge("fs_parked_operations") == 5);
  CHECK(errors.empty());
  world.fs->shut_down();
  CHECK(errors == std::vector<int>(5, EIO));
  world.fs.reset();
  CHECK(world.gauges_are_zero());
  world.tree.release_all();
  CHECK(errors.size() == 5);
  CHECK(world.tree.count(2) == 0);  // the late lookup's count was given back
  CHECK(world.source(2).open_handles == 0);
}

TEST_CASE("a cancelled lookup or open leaves nothing behind") {
  World world;
  world.tree.hold = true;
  std::vector<int> errors;
  const Cancel lookup = world.fs->lookup(1, "a", [&](auto reply) { errors.push_back(reply.error); });
  const Cancel open = world.fs->open(2, O_RDONLY, {}, [&](auto reply) { errors.push_back(reply.error); });
  lookup();
  open();
  open();
  CHECK(errors == std::vector<int>(2, EINTR));
  world.tree.release_all();
  CHECK(errors.size() == 2);
  CHECK(world.tree.count(2) == 0);
  CHECK(world.gauges_are_zero());
}

TEST_CASE("a parked operation is claimed once, whoever comes") {
  World world;
  const auto opened = world.open(2);
  world.source(2).hold = true;
  std::atomic<int> answers{0};
  std::vector<Cancel> cancels;
  constexpr int kReads = 2000;
  for (int i = 0; i < kReads; ++i) {
    cancels.push_back(world.fs->read(opened.value.handle, 0, 10, {}, [&](const auto&) { ++answers; }));
  }
  std::thread answer([&] {
    for (auto& read : world.source(2).parked) read->answer();
  });
  std::thread interrupt([&] {
    for (auto place = cancels.rbegin(); place != cancels.rend(); ++place) (*place)();
  });
  world.fs->shut_down();
  answer.join();
  interrupt.join();
  CHECK(answers == kReads);
  CHECK(world.gauge("fs_parked_operations") == 0);
}

TEST_CASE("extended attributes") {
  World world;
  world.options.key_prefix = "set/";
  world.restart();
  CHECK(world.fs->getxattr(2, "user.shardfs.etag").value == "\"a-1\"");
  CHECK(world.fs->getxattr(2, "user.shardfs.key").value == "a");
  CHECK(world.fs->getxattr(2, "user.shardfs.cached_bytes").value == "42");
  CHECK(world.fs->getxattr(2, "user.shardfs.state").value == "complete");
  CHECK(world.fs->getxattr(2, "user.shardfs.none").error == ENODATA);
  CHECK(world.fs->getxattr(2, "security.capability").error == ENODATA);
  CHECK(world.fs->getxattr(4, "user.shardfs.key").value == "set/d/");
  CHECK(world.fs->getxattr(1, "user.shardfs.key").value == "set/");
  CHECK(world.fs->getxattr(4, "user.shardfs.etag").error == ENODATA);
  CHECK(world.fs->listxattr(4).value == std::vector<std::string>{"user.shardfs.key"});
  for (const auto& name : world.fs->listxattr(2).value) CHECK(world.fs->getxattr(2, name).error == 0);
  CHECK(world.source(2).open_handles == 0);
}

TEST_CASE("statfs is never zero") {
  World world;
  const auto reply = world.fs->statfs();
  CHECK(reply.error == 0);
  CHECK(reply.value.f_blocks > 0);
  CHECK(reply.value.f_bfree > 0);
  CHECK(reply.value.f_bavail > 0);
  CHECK(reply.value.f_files > 0);
  CHECK(reply.value.f_ffree > 0);
  CHECK(reply.value.f_namemax == 255);
  CHECK(reply.value.f_frsize > 0);
}

TEST_CASE("handles left over are closed with the file system") {
  World world;
  world.source(2).complete = true;
  world.open(2);
  world.open(3);
  world.fs->opendir(1, [](const auto&) {});
  CHECK(world.gauge("fs_open_files") == 2);
  CHECK(world.gauge("fs_open_directories") == 1);
  world.fs.reset();
  CHECK(world.gauges_are_zero());
  CHECK(world.kernel.open_ids() == 0);
  CHECK(world.source(2).open_handles == 0);
}

TEST_CASE("a handle's number finds nothing after it was removed, also when its slot is used again") {
  HandleTable<int> table;
  const auto first = table.add(std::make_shared<int>(1));
  CHECK(*table.find(first) == 1);
  CHECK(table.remove(first));
  CHECK_FALSE(table.remove(first));
  const auto second = table.add(std::make_shared<int>(2));
  CHECK(second != first);
  CHECK_FALSE(table.find(first));
  CHECK_FALSE(table.find(0));
  CHECK_FALSE(table.find(~0ull));
  CHECK(*table.find(second) == 2);
}

TEST_CASE("refresh: the kernel is to forget the names that the tree dropped") {
  World world;
  world.tree.kernel_names = {{1, "a"}, {7, "b"}};
  CHECK(world.fs->refresh("dir") == 2);
  CHECK(world.tree.refreshed == std::vector<std::string>{"dir"});
  CHECK(world.kernel.expired == decltype(world.kernel.expired){{1, "a"}, {7, "b"}});
}
