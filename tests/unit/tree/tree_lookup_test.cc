// Lookups one by one: what is asked of the store, what is answered from memory, and for how long.
#include <doctest/doctest.h>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("an unknown name asks HEAD and LIST side by side, a known one nobody") {
  Fixture at;
  at.store.put("a.tar", 1000, "\"e\"");
  const auto first = at.lookup(kRootNode, "a.tar");
  CHECK(at.store.calls() == Texts{"HEAD a.tar", "LIST a.tar/ 1"});
  CHECK(at.store.waiting() == 2);
  at.store.run_all();
  const auto node = first.get();
  REQUIRE(node);
  CHECK(node->kind == Kind::kFile);
  CHECK(node->parent == kRootNode);
  CHECK(node->name == "a.tar");
  CHECK(node->info.key == "a.tar");
  CHECK(node->info.size_bytes == 1000);
  CHECK(node->info.etag == "\"e\"");
  CHECK(node->valid_for == seconds(60));
  CHECK(node->st_ino > kRootNode);
  at.clock.advance(seconds(20));
  const auto again = at.look(kRootNode, "a.tar");
  CHECK(again->id == node->id);
  CHECK(again->valid_for == seconds(40));
  CHECK(at.store.calls().size() == 2);
  CHECK(at.count("tree_lookups") == 2);
  CHECK(at.count("tree_lookups_from_memory") == 1);
}

TEST_CASE("what lies below the prefix in the bucket is never seen outside of it") {
  TreeOptions options;
  options.prefix = "p/";
  Fixture at(options);
  at.store.put("p/d/x");
  const auto directory = at.look(kRootNode, "d");
  REQUIRE(directory);
  CHECK(directory->kind == Kind::kDirectory);
  CHECK(at.store.take_calls() == Texts{"HEAD p/d", "LIST p/d/ 1"});
  const auto file = at.look(directory->id, "x");
  CHECK(file->info.key == "p/d/x");
  CHECK(file->parent == directory->id);
  CHECK(at.store.take_calls() == Texts{"HEAD p/d/x", "LIST p/d/x/ 1"});
  CHECK(code_of(at.look(file->id, "y")) == base::Code::kNotDirectory);
  CHECK(code_of(at.look(999, "y")) == base::Code::kNotFound);
  CHECK(at.store.calls().empty());
}

TEST_CASE("a directory is answered as soon as LIST shows something") {
  Fixture at;
  at.store.put("d/x");
  const auto node = at.lookup(kRootNode, "d");
  CHECK(at.store.run_first("LIST d/ 1"));
  CHECK(node.here());
  CHECK(node.get()->kind == Kind::kDirectory);
  at.store.run_all();
  CHECK(node.times() == 1);
}

TEST_CASE("concurrent lookups of one name share one flight") {
  Fixture at;
  at.store.put("a");
  std::vector<AwaitedNode> nodes;
  for (int i = 0; i < 10; ++i) nodes.push_back(at.lookup(kRootNode, "a"));
  CHECK(at.store.waiting() == 2);
  at.store.run_all();
  for (const auto& node : nodes) CHECK(node.get()->id == nodes.front().get()->id);
  const NodeId id = nodes.front().get()->id;
  at.tree->forget(id, 9);
  CHECK(at.tree->find(id));
  at.tree->forget(id, 1);
  CHECK(code_of(at.tree->find(id)) == base::Code::kNotFound);
  CHECK(at.tree->node_count() == 1);
}

TEST_CASE("a missing name stays missing for the negative lifetime only") {
  Fixture at;
  CHECK(code_of(at.look(kRootNode, "late")) == base::Code::kNotFound);
  CHECK(at.store.take_calls() == Texts{"HEAD late", "LIST late/ 1"});
  at.store.put("late");
  at.clock.advance(milliseconds(1999));
  CHECK(code_of(at.look(kRootNode, "late")) == base::Code::kNotFound);
  CHECK(at.store.calls().empty());
  at.clock.advance(milliseconds(1));
  CHECK(at.look(kRootNode, "late")->kind == Kind::kFile);
}

TEST_CASE("a name that is not in a listing is asked for when the listing is older than the negative lifetime") {
  Fixture at;
  at.store.put("a");
  at.list(kRootNode);
  at.store.take_calls();
  at.store.put("late");
  CHECK(code_of(at.look(kRootNode, "late")) == base::Code::kNotFound);
  CHECK(at.store.calls().empty());
  at.clock.advance(seconds(3));
  CHECK(at.look(kRootNode, "late")->kind == Kind::kFile);
  CHECK(at.look(kRootNode, "a")->valid_for == seconds(57));
  CHECK(at.store.take_calls() == Texts{"HEAD late", "LIST late/ 1"});
}

TEST_CASE("errors are never 'no such file', and are not remembered") {
  for (const auto code : {base::Code::kTransient, base::Code::kTimeout, base::Code::kPermission}) {
    Fixture at;
    at.store.put("a");
    at.store.put("d/x");
    at.store.fail_with = [code](const FakeStore::Call&) { return base::Error{code, "scripted"}; };
    CHECK(code_of(at.look(kRootNode, "a")) == code);
    at.store.fail_with = [code](const FakeStore::Call& call) {
      return call.head ? std::optional(base::Error{code, "scripted"}) : std::nullopt;
    };
    CHECK(code_of(at.look(kRootNode, "missing")) == code);
    CHECK(at.look(kRootNode, "d")->kind == Kind::kDirectory);
    at.store.fail_with = nullptr;
    CHECK(at.look(kRootNode, "a")->kind == Kind::kFile);
  }
}

TEST_CASE("an expired file is asked for by HEAD alone, and its version keeps its node") {
  Fixture at;
  at.store.put("a");
  const auto node = at.look(kRootNode, "a");
  at.store.take_calls();
  at.clock.advance(seconds(60));
  const auto again = at.look(kRootNode, "a");
  CHECK(at.store.take_calls() == Texts{"HEAD a"});
  CHECK(again->id == node->id);
  CHECK(again->valid_for == seconds(60));
  CHECK(at.count("tree_revalidations") == 1);
}

TEST_CASE("another version at one path is another node, and the old node stays what it was") {
  Fixture at;
  at.store.put("a", 3, "\"v1\"");
  const auto old = at.look(kRootNode, "a");
  at.store.put("a", 10, "\"v2\"");
  at.clock.advance(seconds(61));
  const auto fresh = at.look(kRootNode, "a");
  CHECK(fresh->id != old->id);
  CHECK(fresh->st_ino != old->st_ino);
  CHECK(fresh->info.size_bytes == 10);
  CHECK(at.tree->find(old->id)->info.size_bytes == 3);
  CHECK(at.tree->find(old->id)->valid_for == seconds(0));
  CHECK(code_of(at.stat(old->id)) == base::Code::kChanged);
  CHECK(at.stat(fresh->id)->info.etag == "\"v2\"");
  CHECK(at.tree->node_count() == 3);
  at.tree->forget(old->id, 1);
  CHECK(at.tree->node_count() == 2);
}

TEST_CASE("an expired name that changed its kind, or went away") {
  Fixture at;
  at.store.put("x");
  at.store.put("y/1");
  at.store.put("z");
  for (int i = 0; i < 2000; ++i) at.store.put("other" + std::to_string(i));  // too many to list them again for three
  CHECK(at.look(kRootNode, "x")->kind == Kind::kFile);
  at.list(kRootNode);
  at.store.remove("x");
  at.store.put("x/1");
  at.store.remove("y/1");
  at.store.put("y");
  at.store.remove("z");
  at.clock.advance(seconds(61));
  at.store.take_calls();
  CHECK(at.look(kRootNode, "x")->kind == Kind::kDirectory);
  CHECK(at.store.take_calls() == Texts{"HEAD x", "LIST x/ 1"});
  CHECK(at.look(kRootNode, "y")->kind == Kind::kFile);
  CHECK(at.store.take_calls() == Texts{"LIST y/ 1", "HEAD y"});
  CHECK(code_of(at.look(kRootNode, "z")) == base::Code::kNotFound);
  CHECK(at.store.take_calls() == Texts{"HEAD z", "LIST z/ 1"});
}

TEST_CASE("getattr: from memory while fresh, then HEAD; directories never") {
  Fixture at;
  at.store.put("d/a");
  const auto file = at.walk("d/a");
  REQUIRE(file);
  at.store.take_calls();
  CHECK(at.stat(file->id)->id == file->id);
  CHECK(at.store.calls().empty());
  at.clock.advance(seconds(61));
  CHECK(at.stat(kRootNode)->id == kRootNode);
  CHECK(at.stat(kRootNode)->st_ino == 1);
  CHECK(at.stat(file->parent)->kind == Kind::kDirectory);
  CHECK(at.store.calls().empty());
  CHECK(at.stat(file->id)->id == file->id);
  CHECK(at.store.take_calls() == Texts{"HEAD d/a"});
  at.store.remove("d/a");
  at.clock.advance(seconds(61));
  CHECK(code_of(at.stat(file->id)) == base::Code::kNotFound);
  CHECK(code_of(at.stat(12345)) == base::Code::kNotFound);
  at.tree->forget(file->id, 1);  // getattr did not raise the count
  CHECK(code_of(at.tree->find(file->id)) == base::Code::kNotFound);
}

TEST_CASE("endless and zero lifetimes") {
  TreeOptions endless;
  endless.metadata_ttl = milliseconds::max();
  Fixture ever(endless);
  ever.store.put("a");
  ever.look(kRootNode, "a");
  ever.clock.advance(std::chrono::hours(24 * 365));
  ever.store.take_calls();
  CHECK(ever.look(kRootNode, "a")->valid_for == milliseconds::max());
  CHECK(ever.store.calls().empty());

  TreeOptions none;
  none.metadata_ttl = milliseconds(0);
  none.negative_ttl = milliseconds(0);
  Fixture never(none);
  never.store.put("a");
  CHECK(never.look(kRootNode, "a")->valid_for == milliseconds(0));
  never.store.take_calls();
  CHECK(never.look(kRootNode, "a")->kind == Kind::kFile);
  CHECK(never.store.take_calls() == Texts{"HEAD a"});
  CHECK(code_of(never.look(kRootNode, "b")) == base::Code::kNotFound);
  CHECK(code_of(never.look(kRootNode, "b")) == base::Code::kNotFound);
  CHECK(never.store.full_calls().size() >= 4);
}

TEST_CASE("the hook runs once, at HEAD's answer, and not for what is known") {
  Fixture at;
  Texts found;
  at.tree->on_file_found([&](const store::ObjectInfo& info) { found.push_back(info.key + " " + info.etag); });
  at.store.put("d/a", 3, "v1");
  const auto directory = at.look(kRootNode, "d");
  CHECK(found.empty());
  const auto node = at.lookup(directory->id, "a");
  CHECK(at.store.run_first("HEAD d/a"));
  CHECK(found == Texts{"d/a v1"});
  CHECK_FALSE(node.here());
  at.store.run_all();
  CHECK(node.here());
  at.look(directory->id, "a");
  at.clock.advance(seconds(61));
  at.look(directory->id, "a");  // revalidated: the same version
  CHECK(found.size() == 1);
  at.store.put("d/a", 4, "v2");
  at.clock.advance(seconds(61));
  const auto changed = at.look(directory->id, "a");
  CHECK(found == Texts{"d/a v1", "d/a v2"});
  at.clock.advance(seconds(61));
  at.store.put("d/a", 4, "v3");
  at.stat(changed->id);  // nobody opens because of a stat
  CHECK(found.size() == 2);
  at.list(directory->id);
  at.look(directory->id, "a");
  CHECK(found.size() == 2);
}

TEST_CASE("expire: the next lookup asks, whatever was known or is under way") {
  Fixture at;
  at.store.put("a", 3, "v1");
  at.list(kRootNode);
  const auto old = at.look(kRootNode, "a");
  at.store.put("a", 4, "v2");
  at.store.take_calls();
  at.tree->expire(old->id);
  const auto fresh = at.look(kRootNode, "a");
  CHECK(at.store.take_calls() == Texts{"HEAD a", "LIST a/ 1"});
  CHECK(fresh->id != old->id);
  CHECK(fresh->info.etag == "v2");
  CHECK(code_of(at.stat(old->id)) == base::Code::kChanged);
  CHECK(at.store.take_calls().empty());
  (*at.list(kRootNode));  // the listing that said otherwise is not served again
  CHECK(at.store.take_calls() == Texts{"LIST  1000"});

  at.clock.advance(seconds(61));
  const auto slow = at.lookup(kRootNode, "a");
  at.tree->expire(fresh->id);
  const auto after = at.lookup(kRootNode, "a");
  CHECK(at.store.take_calls() == Texts{"HEAD a", "HEAD a", "LIST a/ 1"});
  at.store.run_first("HEAD a");
  CHECK(slow.here());
  CHECK(slow.get()->valid_for == seconds(0));
  CHECK_FALSE(after.here());
  at.store.run_all();
  CHECK(after.get()->valid_for == seconds(60));
  at.tree->expire(kRootNode);
  at.tree->expire(4711);
}

TEST_CASE("an object that was deleted: after expire it is gone at once") {
  Fixture at;
  at.store.put("a");
  const auto node = at.look(kRootNode, "a");
  at.store.remove("a");
  CHECK(at.look(kRootNode, "a")->id == node->id);
  at.tree->expire(node->id);
  CHECK(code_of(at.look(kRootNode, "a")) == base::Code::kNotFound);
}

TEST_CASE("retire: a new nodeid with the same inode number, known without a request") {
  Fixture at;
  at.store.put("a");
  const auto old = at.look(kRootNode, "a");
  at.store.take_calls();
  at.tree->retire(old->id);
  const auto fresh = at.look(kRootNode, "a");
  CHECK(fresh->id != old->id);
  CHECK(fresh->st_ino == old->st_ino);
  CHECK(at.stat(old->id)->id == old->id);  // still the same version
  CHECK(at.store.calls().empty());
}

TEST_CASE("the inode number is the same after a remount and whether HEAD or LIST told of the file") {
  uint64_t first = 0;
  base::WallTime mtime;
  {
    Fixture at;
    at.store.put("d/a");
    first = at.walk("d/a")->st_ino;
    mtime = at.walk("d/a")->info.last_modified;
  }
  Fixture at;
  at.store.put("d/a");
  const auto directory = at.look(kRootNode, "d");
  const auto listing = at.list(directory->id);
  const auto node = at.tree->enter(directory->id, (*listing)->names.front());
  CHECK(node->st_ino == first);
  CHECK(node->info.last_modified == mtime);
}

TEST_CASE("LIST answers that begin with empty pages") {
  Fixture at;
  at.store.put("d/x");
  unsigned empty = 3;
  at.store.change_page = [&](const FakeStore::Call& call, store::ListPage& page) {
    if (call.key != "d/" || empty == 0) return;
    page = store::ListPage{};
    page.truncated = true;
    page.continuation = "d/" + std::to_string(--empty);  // before "d/x"
  };
  at.store.page_limit = 1000;
  const auto node = at.lookup(kRootNode, "d");
  at.store.change_page = [&, change = at.store.change_page](const FakeStore::Call& call, store::ListPage& page) {
    change(call, page);
    if (empty == 0 && !call.continuation.empty()) page.prefixes.push_back("d/x/");
  };
  at.store.run_all();
  CHECK(node.get()->kind == Kind::kDirectory);

  Fixture stuck;
  stuck.store.change_page = [](const FakeStore::Call&, store::ListPage& page) {
    page = store::ListPage{};
    page.truncated = true;
    page.continuation = "same";
  };
  CHECK(code_of(stuck.look(kRootNode, "d")) == base::Code::kIntegrity);
  CHECK(stuck.store.calls().size() <= 4);
}

TEST_CASE("the end of the tree answers all who wait") {
  Fixture at;
  at.store.put("a");
  const auto lookup = at.lookup(kRootNode, "a");
  const auto listing = at.list_soon(kRootNode);
  Awaited<void> started;
  at.tree->start(seconds(1), started.done());
  at.tree.reset();
  CHECK(code_of(lookup.get()) == base::Code::kCancelled);
  CHECK(code_of(listing.get()) == base::Code::kCancelled);
  CHECK(started.times() == 1);
  at.store.run_all();  // late answers find nobody
  CHECK(lookup.times() == 1);
  CHECK(listing.times() == 1);
  CHECK(at.metrics.gauge("tree_nodes").value() == 0);
  CHECK(at.metrics.gauge("tree_listed_names").value() == 0);
  CHECK(at.metrics.gauge("tree_lookups_in_flight").value() == 0);
}
