#include "tree/node_table.h"

#include <doctest/doctest.h>

using namespace shardfs;
using namespace shardfs::tree;

namespace {

Known file(const char* etag, uint64_t size_bytes = 3) {
  Known known;
  known.presence = Presence::kFile;
  known.etag = etag;
  known.size_bytes = size_bytes;
  return known;
}

Known directory() {
  Known known;
  known.presence = Presence::kDirectory;
  return known;
}

}  // namespace

TEST_CASE("a node stands for one path and version") {
  NodeTable nodes("p/", {});
  CHECK(nodes.size() == 1);
  const auto& first = nodes.enter(kRootNode, "a", file("\"1\""));
  CHECK(first.info.key == "p/a");
  CHECK(nodes.path_of(first) == "a");
  CHECK(&nodes.enter(kRootNode, "a", file("\"1\"")) == &first);
  CHECK(&nodes.enter(kRootNode, "a", file("1")) == &first);  // quotes are no other version
  CHECK(first.lookups == 3);
  const auto& second = nodes.enter(kRootNode, "a", file("\"2\""));
  CHECK(second.id != first.id);
  CHECK(second.st_ino != first.st_ino);
  CHECK(nodes.enter(kRootNode, "a", file("\"1\"", 4)).id != first.id);  // the same ETag, another size
  CHECK(nodes.enter(kRootNode, "a", directory()).kind == Kind::kDirectory);
  CHECK(nodes.size() == 5);
  CHECK(nodes.enter(kRootNode, "a", file("\"1\"")).id == first.id);
}

TEST_CASE("without an ETag size and time are the version") {
  NodeTable nodes("", {});
  Known known = file("");
  const auto& first = nodes.enter(kRootNode, "a", known);
  CHECK(nodes.enter(kRootNode, "a", known).id == first.id);
  known.last_modified += std::chrono::seconds(1);
  CHECK(nodes.enter(kRootNode, "a", known).id != first.id);
}

TEST_CASE("forget takes counts, and the last one removes the node") {
  NodeTable nodes("", {});
  const NodeId id = nodes.enter(kRootNode, "a", file("1")).id;
  nodes.enter(kRootNode, "a", file("1"));
  nodes.forget(id, 1);
  CHECK(nodes.find(id) != nullptr);
  nodes.forget(id, 1);
  CHECK(nodes.find(id) == nullptr);
  CHECK(nodes.youngest("a") == nullptr);
  const NodeId next = nodes.enter(kRootNode, "a", file("1")).id;
  CHECK(next != id);
  nodes.forget(next, 1000);  // more than was given
  nodes.forget(next, 1);     // unknown by now
  nodes.forget(kRootNode, 5);
  CHECK(nodes.size() == 1);
  CHECK(nodes.find(kRootNode) != nullptr);
}

TEST_CASE("a retired node stays for its holders, and its version gets another nodeid with the same inode number") {
  NodeTable nodes("", {});
  const auto& old = nodes.enter(kRootNode, "a", file("1"));
  nodes.retire(old.id);
  const auto& fresh = nodes.enter(kRootNode, "a", file("1"));
  CHECK(fresh.id != old.id);
  CHECK(fresh.st_ino == old.st_ino);
  CHECK(nodes.enter(kRootNode, "a", file("1")).id == fresh.id);
  CHECK(nodes.youngest("a") == &fresh);
  CHECK(nodes.find(old.id) == &old);
  const NodeId old_id = old.id;
  nodes.forget(old_id, 1);
  CHECK(nodes.find(old_id) == nullptr);
  CHECK(nodes.youngest("a") == &fresh);
  const auto& folder = nodes.enter(kRootNode, "d", directory());
  nodes.retire(folder.id);
  CHECK(nodes.enter(kRootNode, "d", directory()).id == folder.id);
}

TEST_CASE("many nodes, all forgotten") {
  NodeTable nodes("prefix/", {});
  std::vector<NodeId> ids;
  for (int i = 0; i < 20000; ++i) ids.push_back(nodes.enter(kRootNode, "d/" + std::to_string(i), file("1")).id);
  CHECK(nodes.size() == 20001);
  for (const NodeId id : ids) nodes.forget(id, 1);
  CHECK(nodes.size() == 1);
}
