#include <doctest/doctest.h>

#include "fakes.h"

using namespace shardfs;
using namespace shardfs::fs;
using testing::World;

namespace {

struct Directory : World {
  Directory() {
    for (NodeId node = 10; node < 15; ++node) {
      const std::string name = "n" + std::to_string(node);
      tree.add(node, 1, name, tree::Kind::kFile, node);
      tree.listing->names.push_back({name, tree::Kind::kFile, node, {}, ""});
    }
  }
  OpenDirectoryReply opendir() {
    OpenDirectoryReply got;
    fs->opendir(1, [&](const auto& reply) {
      CHECK(reply.error == 0);
      got = reply.value;
    });
    return got;
  }
  /// Up to `room` names from an offset on.
  std::vector<std::string> names(HandleId handle, uint64_t offset, size_t room, bool attributes, uint64_t* next) {
    std::vector<std::string> got;
    CHECK(fs->readdir(handle, offset, attributes, [&](const DirectoryEntry& entry) {
      if (got.size() == room) return false;
      got.emplace_back(entry.name);
      *next = entry.next_offset;
      return true;
    }) == 0);
    return got;
  }
};

}  // namespace

TEST_CASE("offsets are stable: any buffer size, rewinding and seeking give the same names") {
  Directory world;
  const auto open = world.opendir();
  const std::vector<std::string> all{".", "..", "n10", "n11", "n12", "n13", "n14"};
  for (const bool attributes : {false, true}) {
    for (size_t room = 1; room <= 8; ++room) {
      std::vector<std::string> got;
      uint64_t offset = 0;
      for (;;) {
        const auto some = world.names(open.handle, offset, room, attributes, &offset);
        if (some.empty()) break;
        got.insert(got.end(), some.begin(), some.end());
      }
      CHECK(got == all);
    }
    uint64_t next = 0;
    CHECK(world.names(open.handle, 4, 1, attributes, &next) == std::vector<std::string>{"n12"});
    CHECK(next == 5);
    CHECK(world.names(open.handle, 1000, 1, attributes, &next).empty());
  }
  // The snapshot of the handle does not move.
  world.tree.listing = std::make_shared<tree::Listing>();
  uint64_t next = 0;
  CHECK(world.names(open.handle, 0, 100, false, &next) == all);
  world.fs->releasedir(open.handle);
  CHECK(world.gauges_are_zero());
  CHECK(world.fs->readdir(open.handle, 0, false, [](const auto&) { return true; }) == EBADF);
}

TEST_CASE("counts are raised for the entries taken with attributes, and for no other") {
  Directory world;
  const auto open = world.opendir();
  uint64_t next = 0;
  world.names(open.handle, 0, 4, true, &next);  // ".", "..", two names; the third is refused
  CHECK(world.tree.count(10) == 1);
  CHECK(world.tree.count(11) == 1);
  CHECK(world.tree.count(12) == 0);
  world.names(open.handle, 0, 100, false, &next);
  for (NodeId node = 10; node < 15; ++node) CHECK(world.tree.count(node) == (node < 12 ? 1 : 0));
}

TEST_CASE("entries carry what stat would show") {
  Directory world;
  const auto open = world.opendir();
  for (const bool attributes : {false, true}) {
    world.fs->readdir(open.handle, 0, attributes, [&](const DirectoryEntry& entry) {
      if (entry.name == "." || entry.name == "..") {
        CHECK(entry.node == 0);
        CHECK(entry.attributes.st_ino == 1001);
        CHECK(S_ISDIR(entry.attributes.st_mode));
      } else {
        const auto node = static_cast<NodeId>(std::stoul(std::string(entry.name.substr(1))));
        CHECK(entry.attributes.st_ino == 1000 + node);
        CHECK(S_ISREG(entry.attributes.st_mode));
        CHECK(entry.node == (attributes ? node : 0));
        if (attributes) CHECK(entry.attributes.st_size == static_cast<off_t>(node));
      }
      return true;
    });
  }
}

TEST_CASE("a listed name that can't be entered is still shown") {
  Directory world;
  world.tree.listing->names.push_back({"ghost", tree::Kind::kDirectory, 0, {}, ""});
  const auto open = world.opendir();
  bool seen = false;
  world.fs->readdir(open.handle, 0, true, [&](const DirectoryEntry& entry) {
    if (entry.name == "ghost") {
      seen = true;
      CHECK(entry.node == 0);
      CHECK(S_ISDIR(entry.attributes.st_mode));
    }
    return true;
  });
  CHECK(seen);
}

TEST_CASE("what the kernel kept of a directory is right only while the listing is the same") {
  Directory world;
  CHECK_FALSE(world.opendir().same_listing);
  CHECK(world.opendir().same_listing);
  world.tree.listing = std::make_shared<tree::Listing>(*world.tree.listing);  // listed again, nothing new
  CHECK(world.opendir().same_listing);
  world.tree.listing = std::make_shared<tree::Listing>(*world.tree.listing);
  world.tree.listing->names[0].etag = "\"2\"";
  CHECK_FALSE(world.opendir().same_listing);
  CHECK(world.opendir().same_listing);
  world.fs->forget(1, 1);
  CHECK_FALSE(world.opendir().same_listing);
}

TEST_CASE("opendir of a file") {
  Directory world;
  int error = 0;
  world.fs->opendir(10, [&](const auto& reply) { error = reply.error; });
  CHECK(error == ENOTDIR);
}
