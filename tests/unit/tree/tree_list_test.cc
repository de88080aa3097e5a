// Whole directories: requests that a listing costs, what lookups take from it, and listings in the background.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "fixture.h"
#include "tree/lister.h"

using namespace shardfs;
using namespace shardfs::tree;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

std::string numbered(int i) {
  char name[32];
  std::snprintf(name, sizeof(name), "shard-%06d.tar", i);
  return name;
}

void put_numbered(Fixture& at, const std::string& directory, int count) {
  for (int i = 0; i < count; ++i) at.store.put(directory + numbered(i), 1000 + static_cast<uint64_t>(i));
}

size_t heads_in(const Texts& calls) {
  return static_cast<size_t>(std::count_if(calls.begin(), calls.end(), [](auto& c) { return c.starts_with("HEAD"); }));
}

}  // namespace

TEST_CASE("ls -l of 20,000 objects: a request a thousand, and no HEAD") {
  Fixture at;
  put_numbered(at, "", 20000);
  Awaited<void> started;
  at.tree->start(seconds(30), started.done());
  at.store.run_all();
  CHECK(started.get());
  const auto listing = at.list(kRootNode);
  REQUIRE(listing);
  CHECK((*listing)->names.size() == 20000);
  for (const auto& listed : (*listing)->names) {
    const auto node = at.tree->enter(kRootNode, listed);
    REQUIRE(node);
    REQUIRE(node->info.size_bytes == listed.size_bytes);
    REQUIRE(node->valid_for == seconds(60));
    const auto looked = at.look(kRootNode, listed.name);
    REQUIRE(looked->id == node->id);
    REQUIRE(at.stat(node->id));
  }
  CHECK(at.store.calls().size() <= 28);
  CHECK(heads_in(at.store.calls()) == 0);
  CHECK(at.tree->node_count() == 20001);
  for (const auto& listed : (*listing)->names) {
    const auto node = at.look(kRootNode, listed.name);
    at.tree->forget(node->id, 3);
  }
  CHECK(at.tree->node_count() == 1);
}

TEST_CASE("a fresh listing is served again, the same object") {
  Fixture at;
  at.store.put("a");
  const auto first = at.list(kRootNode);
  const auto again = at.list(kRootNode);
  CHECK(first->get() == again->get());
  CHECK(at.store.calls().size() == 1);
  at.store.put("b");
  at.clock.advance(seconds(60));
  CHECK(at.names(kRootNode) == Texts{"a", "b"});
  CHECK((*first)->names.size() == 1);  // what was handed out does not change
}

TEST_CASE("callers share one listing") {
  Fixture at;
  at.store.page_limit = 2;
  for (const char* key : {"a", "b", "c"}) at.store.put(key);
  const auto first = at.list_soon(kRootNode);
  const auto second = at.list_soon(kRootNode);
  at.store.run_all();
  CHECK(at.store.calls() == Texts{"LIST  1000", "LIST  1000 after b"});
  CHECK(first.get()->get() == second.get()->get());
}

TEST_CASE("start: one page is enough for a small root, and tells of a wrong bucket") {
  Fixture at;
  at.store.put("a");
  at.store.put("d/x");
  Awaited<void> started;
  at.tree->start(seconds(5), started.done());
  at.store.run_all();
  CHECK(started.get());
  CHECK(at.look(kRootNode, "a")->kind == Kind::kFile);
  CHECK(at.look(kRootNode, "d")->kind == Kind::kDirectory);
  CHECK(code_of(at.look(kRootNode, "none")) == base::Code::kNotFound);
  CHECK(at.names(kRootNode) == Texts{"a", "d/"});
  CHECK(at.store.calls() == Texts{"LIST  1000"});

  for (const auto code : {base::Code::kNotFound, base::Code::kPermission, base::Code::kTransient}) {
    Fixture wrong;
    wrong.store.fail_with = [code](const FakeStore::Call&) { return base::Error{code, "scripted"}; };
    Awaited<void> failed;
    wrong.tree->start(seconds(5), failed.done());
    wrong.store.run_all();
    CHECK(code_of(failed.get()) == code);
  }
}

TEST_CASE("start: the first page of a long root is known, and no second one is asked for") {
  Fixture at;
  put_numbered(at, "", 2500);
  Awaited<void> started;
  at.tree->start(seconds(5), started.done());
  at.store.run_all();
  CHECK(started.get());
  CHECK(at.store.calls().size() == 1);
  CHECK(at.look(kRootNode, numbered(500))->kind == Kind::kFile);
  CHECK(at.store.calls().size() == 1);
  CHECK(at.look(kRootNode, numbered(2400))->kind == Kind::kFile);
  CHECK(at.store.calls().size() == 3);
}

TEST_CASE("start: an empty prefix is an empty directory") {
  TreeOptions options;
  options.prefix = "nothing/here/";
  Fixture at(options);
  at.store.put("else");
  Awaited<void> started;
  at.tree->start(seconds(5), started.done());
  at.store.run_all();
  CHECK(started.get());
  CHECK(at.names(kRootNode) == Texts{});
  CHECK(at.store.calls() == Texts{"LIST nothing/here/ 1000", "HEAD nothing/here"});

  Fixture forbidden(options);
  forbidden.store.fail_with = [](const FakeStore::Call& call) -> std::optional<base::Error> {
    return call.head ? std::optional(base::Error{base::Code::kPermission, "scripted"}) : std::nullopt;
  };
  Awaited<void> allowed;
  forbidden.tree->start(seconds(5), allowed.done());
  forbidden.store.run_all();
  CHECK(allowed.get());
}

TEST_CASE("start: a prefix that is an object is refused, unless something lies below it") {
  TreeOptions options;
  options.prefix = "shards/data.tar/";
  for (const bool below : {false, true}) {
    Fixture at(options);
    at.store.put("shards/data.tar");
    if (below) at.store.put("shards/data.tar/x");
    Awaited<void> started;
    at.tree->start(seconds(5), started.done());
    at.store.run_all();
    const auto result = started.get();
    CHECK(result.has_value() == below);
    if (!below) CHECK(code_of(result) == base::Code::kNotDirectory);
  }
}

TEST_CASE("listing a directory that went away") {
  Fixture at;
  at.store.put("d/a");
  const auto directory = at.look(kRootNode, "d");
  at.store.remove("d/a");
  CHECK(at.names(directory->id) == Texts{"error not_found"});
  CHECK(code_of(at.look(kRootNode, "d")) == base::Code::kNotFound);
  CHECK(at.names(12345) == Texts{"error not_found"});
  at.store.put("f");
  CHECK(at.names(at.look(kRootNode, "f")->id) == Texts{"error not_directory"});
}

TEST_CASE("opening 1,000 files in listed order in a directory that was never listed costs a few requests") {
  Fixture at;
  put_numbered(at, "train/", 1000);
  const auto directory = at.look(kRootNode, "train");
  at.store.take_calls();
  for (int i = 0; i < 1000; ++i) REQUIRE(at.look(directory->id, numbered(i))->info.key == "train/" + numbered(i));
  const auto calls = at.store.calls();
  CHECK(calls.size() == 5);
  CHECK(heads_in(calls) == 2);
  CHECK(std::count(calls.begin(), calls.end(), "LIST train/ 1000") == 1);
  for (const auto& call : at.store.full_calls()) {
    if (call.max_keys == 1000) CHECK(call.priority == store::Priority::kReadahead);
  }
}

TEST_CASE("pages that arrived answer waiting lookups, before HEAD and LIST do") {
  Fixture at;
  put_numbered(at, "t/", 2500);
  const auto directory = at.look(kRootNode, "t");
  at.look(directory->id, numbered(0));
  const auto near = at.lookup(directory->id, numbered(700));
  const auto far = at.lookup(directory->id, numbered(2300));
  const auto missing = at.lookup(directory->id, "missing");
  CHECK(at.store.run_first("LIST t/ 1000"));
  CHECK(near.here());
  CHECK(near.get()->info.size_bytes == 1700);
  CHECK_FALSE(far.here());
  CHECK(at.store.run_first("LIST t/ 1000 after t/" + numbered(999)));
  CHECK_FALSE(far.here());
  CHECK(at.look(directory->id, numbered(2300))->info.size_bytes == 3300);
  CHECK(far.get()->info.size_bytes == 3300);
  CHECK(far.times() == 1);
  CHECK(near.times() == 1);
  CHECK(code_of(missing.get()) == base::Code::kNotFound);
}

TEST_CASE("an opendir joins the background listing and makes it urgent") {
  Fixture at;
  put_numbered(at, "t/", 2500);
  const auto directory = at.look(kRootNode, "t");
  at.look(directory->id, numbered(0));
  at.lookup(directory->id, numbered(1));
  const auto listing = at.list_soon(directory->id);
  CHECK(at.store.raised() == 1);
  at.store.run_all();
  CHECK((*listing.get())->names.size() == 2500);
  const auto calls = at.store.full_calls();
  CHECK(std::count_if(calls.begin(), calls.end(), [](auto& c) { return c.max_keys == 1000; }) <= 6);
  CHECK(calls.back().priority == store::Priority::kDemand);
}

TEST_CASE("a background listing that fails is not tried again at every lookup") {
  Fixture at;
  at.store.put("d/a");
  const auto directory = at.look(kRootNode, "d");
  at.store.fail_with = [](const FakeStore::Call& call) {
    return call.max_keys == 1000 ? std::optional(base::Error{base::Code::kPermission, "no listing"}) : std::nullopt;
  };
  for (int i = 0; i < 10; ++i) CHECK(code_of(at.look(directory->id, numbered(i))) == base::Code::kNotFound);
  auto calls = at.store.take_calls();
  CHECK(std::count(calls.begin(), calls.end(), "LIST d/ 1000") == 1);
  CHECK(at.look(directory->id, "a")->kind == Kind::kFile);
  CHECK(at.names(directory->id) == Texts{"error permission"});
}

TEST_CASE("a background listing stops at its share of the names, an opendir does not") {
  TreeOptions options;
  options.listed_names_limit = 4000;
  Fixture at(options);
  put_numbered(at, "t/", 6000);
  const auto directory = at.look(kRootNode, "t");
  at.look(directory->id, numbered(0));
  at.look(directory->id, numbered(1));
  const auto calls = at.store.take_calls();
  CHECK(std::count_if(calls.begin(), calls.end(), [](auto& c) { return c.starts_with("LIST t/ 1000"); }) == 2);
  CHECK(at.look(directory->id, numbered(1500))->kind == Kind::kFile);
  CHECK(at.store.calls().empty());
  CHECK((*at.list(directory->id))->names.size() == 6000);
}

TEST_CASE("names of an expired listing are asked for one by one, and after the second their directory") {
  Fixture at;
  put_numbered(at, "t/", 50);
  const auto directory = at.look(kRootNode, "t");
  at.list(directory->id);
  at.clock.advance(seconds(61));
  at.store.take_calls();
  for (int i = 0; i < 5; ++i) CHECK(at.look(directory->id, numbered(i))->valid_for == seconds(60));
  CHECK(at.store.take_calls() == Texts{"HEAD t/" + numbered(0), "HEAD t/" + numbered(1), "LIST t/ 1000"});
}

TEST_CASE("a directory in use is listed again before its names expire, once, and not one that is not") {
  Fixture at;
  put_numbered(at, "t/", 1500);
  const auto directory = at.look(kRootNode, "t");
  at.list(directory->id);
  std::vector<Node> nodes;
  for (int i = 0; i < 10; ++i) nodes.push_back(*at.look(directory->id, numbered(i)));
  at.store.take_calls();
  at.clock.advance(seconds(29));
  for (const Node& node : nodes) CHECK(at.stat(node.id));
  CHECK(at.store.take_calls().empty());
  at.clock.advance(seconds(2));
  CHECK(at.stat(nodes[0].id));
  CHECK(at.stat(nodes[1].id));
  CHECK(at.store.take_calls().empty());  // two pages are more than two names are worth
  CHECK(at.stat(nodes[2].id));
  CHECK(at.store.take_calls().size() == 2);
  for (const Node& node : nodes) CHECK(at.stat(node.id)->valid_for == seconds(60));
  at.clock.advance(seconds(59));
  CHECK(at.stat(nodes[3].id)->valid_for == seconds(1));
  CHECK(at.store.take_calls().empty());
  for (const auto& call : at.store.full_calls()) CHECK(call.priority == store::Priority::kReadahead);
}

TEST_CASE("listing again that fails is not tried again at every use, and nothing changes") {
  Fixture at;
  put_numbered(at, "t/", 5);
  const auto directory = at.look(kRootNode, "t");
  at.list(directory->id);
  const auto node = at.look(directory->id, numbered(0));
  const auto other = at.look(directory->id, numbered(1));
  at.store.fail_with = [](const FakeStore::Call& call) {
    return call.max_keys == 1000 ? std::optional(base::Error{base::Code::kTransient, "503"}) : std::nullopt;
  };
  at.clock.advance(seconds(40));
  at.store.take_calls();
  for (int i = 0; i < 10; ++i) CHECK(at.stat(node->id)->valid_for == seconds(20));
  CHECK(at.store.take_calls().empty());  // one name, however often
  for (int i = 0; i < 10; ++i) CHECK(at.stat(other->id)->valid_for == seconds(20));
  CHECK(at.store.take_calls() == Texts{"LIST t/ 1000"});
}

TEST_CASE("listings that never end are errors, and the names so far are known") {
  for (const bool same_token : {true, false}) {
    Fixture at;
    at.store.put("a");
    at.store.put("b");
    unsigned pages = 0;
    at.store.change_page = [&](const FakeStore::Call& call, store::ListPage& page) {
      if (call.max_keys != 1000) return;
      page.objects = {store::ObjectInfo{"a", 3, "e"}, store::ObjectInfo{"b", 3, "e"}};
      page.truncated = true;
      page.continuation = same_token ? "again" : std::to_string(++pages);
    };
    CHECK(at.names(kRootNode) == Texts{"error integrity"});
    CHECK(at.store.take_calls().size() == (same_token ? 2 : Lister::kIdlePagesLimit + 1));
    CHECK(at.look(kRootNode, "a")->kind == Kind::kFile);
    CHECK(at.store.calls().empty());
  }
}

TEST_CASE("enter: the newest that is known of the name") {
  Fixture at;
  at.store.put("a", 3, "v1");
  const auto listing = at.list(kRootNode);
  const ListedName listed = (*listing)->names.front();
  const auto old = at.tree->enter(kRootNode, listed);
  at.store.put("a", 4, "v2");
  at.tree->expire(old->id);
  const auto blind = at.tree->enter(kRootNode, listed);
  CHECK(blind->id == old->id);
  CHECK(blind->valid_for == milliseconds(0));  // the kernel asks at once
  at.look(kRootNode, "a");
  const auto fresh = at.tree->enter(kRootNode, listed);
  CHECK(fresh->info.etag == "v2");
  CHECK(fresh->valid_for == seconds(60));
  CHECK(code_of(at.tree->enter(999, listed)) == base::Code::kNotFound);
}

TEST_CASE("what is known of a directory is told without asking the store") {
  Fixture at;
  at.store.put("d/a", 3, "v1");
  at.store.put("d/below/c");
  CHECK(at.tree->known_listing("d") == nullptr);
  const auto directory = at.look(kRootNode, "d");
  const auto listing = at.list(directory->id);
  at.store.take_calls();
  CHECK(at.tree->known_listing("d") == *listing);
  CHECK(at.tree->known_listing("d/below") == nullptr);
  CHECK(at.tree->known_listing("none") == nullptr);
  const size_t nodes = at.tree->node_count();
  const ListedName& file = (*listing)->names[0];
  const auto info = at.tree->known_file("d", file);
  REQUIRE(info);
  CHECK(info->key == "d/a");
  CHECK(info->size_bytes == 3);
  CHECK(info->etag == "v1");
  CHECK(store::version_of(*info) == store::version_of(at.tree->enter(directory->id, file)->info));
  CHECK_FALSE(at.tree->known_file("d", (*listing)->names[1]));  // a directory
  CHECK(at.tree->node_count() == nodes + 1);                    // that of enter
  CHECK(at.store.calls().empty());

  // Newer facts count; what is known to be wrong is nothing; what was dropped from memory is as it was listed.
  const auto node = at.look(directory->id, "a");
  at.tree->expire(node->id);
  CHECK_FALSE(at.tree->known_file("d", file));
  at.store.put("d/a", 4, "v2");
  at.look(directory->id, "a");
  CHECK(at.tree->known_file("d", file)->etag == "v2");
  CHECK(at.tree->known_file("elsewhere", file)->key == "elsewhere/a");
  at.clock.advance(seconds(3600));
  CHECK(at.tree->known_listing("d") == *listing);
}

TEST_CASE("the pages of an unfinished listing are not what is known of a directory") {
  Fixture at;
  put_numbered(at, "", 2500);
  Awaited<void> started;
  at.tree->start(seconds(30), started.done());
  at.store.run_all();
  CHECK(at.store.calls().size() == 1);
  CHECK(at.tree->known_listing("") == nullptr);
}

TEST_CASE("a listing that nobody asked for is asked for last, once, and not without end") {
  TreeOptions options;
  options.listed_names_limit = 4000;
  Fixture at(options);
  put_numbered(at, "d/", 1500);
  put_numbered(at, "long/", 6000);
  AwaitedListing first, second;
  at.tree->list_unasked("d", first.done());
  at.tree->list_unasked("d", second.done());
  at.store.run_all();
  CHECK((*first.get())->names.size() == 1500);
  CHECK(*second.get() == *first.get());
  const auto calls = at.store.full_calls();
  CHECK(calls.size() == 2);
  CHECK(std::all_of(calls.begin(), calls.end(), [](auto& c) { return c.priority == store::Priority::kWarm; }));
  AwaitedListing known;
  at.tree->list_unasked("d", known.done());
  CHECK(known.here());
  at.store.take_calls();
  at.clock.advance(seconds(31));
  AwaitedListing late;
  at.tree->list_unasked("d", late.done());
  CHECK_FALSE(late.here());
  at.store.run_all();
  CHECK(at.store.take_calls().size() == 2);
  CHECK(*late.get() == at.tree->known_listing("d"));
  AwaitedListing too_long, none;
  at.tree->list_unasked("long", too_long.done());
  at.tree->list_unasked("none", none.done());
  at.store.run_all();
  CHECK(code_of(too_long.get()) == base::Code::kUnsupported);
  CHECK(code_of(none.get()) == base::Code::kNotFound);
}

TEST_CASE("names beyond the limit are dropped, and the gauge says what is held") {
  TreeOptions options;
  options.listed_names_limit = 1000;
  Fixture at(options);
  for (int d = 0; d < 20; ++d) put_numbered(at, std::to_string(d) + "/", 100);
  for (int d = 0; d < 20; ++d) {
    const auto directory = at.look(kRootNode, std::to_string(d));
    CHECK((*at.list(directory->id))->names.size() == 100);
    CHECK(at.metrics.gauge("tree_listed_names").value() <= 1000);
  }
  CHECK(at.metrics.gauge("tree_listed_names").value() > 800);
  CHECK(at.metrics.gauge("tree_nodes").value() == 21);
}

TEST_CASE("100,000 names: every lookup is answered from memory") {
  Fixture at;
  put_numbered(at, "big/", 100000);
  const auto directory = at.look(kRootNode, "big");
  const auto listing = at.list(directory->id);
  REQUIRE((*listing)->names.size() == 100000);
  CHECK(std::is_sorted((*listing)->names.begin(), (*listing)->names.end(),
                       [](const auto& a, const auto& b) { return a.name < b.name; }));
  at.store.take_calls();
  size_t right = 0;
  for (int round = 0; round < 2; ++round) {
    const std::clock_t begin = std::clock();
    for (int i = 0; i < 100000; ++i) {
      const int pick = static_cast<int>((static_cast<int64_t>(i) * 7919) % 100000);
      at.tree->lookup(directory->id, numbered(pick), [&](base::Result<Node> node) {
        if (node && node->info.size_bytes == 1000u + static_cast<unsigned>(pick)) ++right;
      });
    }
    const std::string what = round == 0 ? "a lookup that makes its node" : "a lookup of a known node";
    const auto ns = (std::clock() - begin) * (1000000 / CLOCKS_PER_SEC) / 100;
    MESSAGE(what, ": ", ns, " ns of CPU");
  }
  CHECK(right == 200000);
  CHECK(at.store.calls().empty());
  CHECK(at.tree->node_count() == 100002);
}

TEST_CASE("a long directory is asked for in several pages at once, and every name comes once") {
  Fixture at({.names_before_parallel = 500});
  put_numbered(at, "", 12345);
  at.store.put("sub/x");
  AwaitedListing listing = at.list_soon(kRootNode);
  size_t most = 0;
  while (at.store.run_first([](const FakeStore::Call&) { return true; })) most = std::max(most, at.store.waiting());
  const auto names = listing.get();
  REQUIRE(names.has_value());
  CHECK((*names)->names.size() == 12346);
  CHECK(std::is_sorted((*names)->names.begin(), (*names)->names.end(),
                       [](const auto& a, const auto& b) { return a.name < b.name; }));
  CHECK((*names)->names.back().name == "sub");
  CHECK(most >= 8);
  CHECK(listing.times() == 1);
}

TEST_CASE("a store that lists backwards is listed one page after the other") {
  Fixture at({.names_before_parallel = 500});
  put_numbered(at, "", 3500);
  at.store.unordered = true;
  CHECK(at.names(kRootNode).size() == 3500);
  for (const auto& call : at.store.full_calls()) CHECK(call.start_after.empty());
}

TEST_CASE("a store that stops keeping the order is listed anew, and nothing is lost") {
  Fixture at({.names_before_parallel = 500});
  put_numbered(at, "", 3500);
  bool kept = true;
  at.store.change_page = [&](const FakeStore::Call& call, store::ListPage& page) {
    if (call.start_after.empty() || page.objects.size() < 2 || !kept) return;
    kept = false;
    std::reverse(page.objects.begin(), page.objects.end());
  };
  CHECK(at.names(kRootNode).size() == 3500);
  CHECK_FALSE(kept);
  at.store.take_calls();
  at.clock.advance(std::chrono::minutes(2));
  CHECK(at.names(kRootNode).size() == 3500);
  CHECK(at.store.calls().size() == 4);  // learned
}

TEST_CASE("refresh: what is known of a path and below is asked for again, the rest is not") {
  Fixture at;
  for (const char* key : {"a/x", "a/b/y", "c/z"}) at.store.put(key);
  for (const char* path : {"a/x", "a/b/y", "c/z"}) CHECK(at.walk(path).has_value());
  const NodeId a = at.walk("a")->id, c = at.walk("c")->id;
  at.names(a);
  at.names(c);
  at.store.take_calls();
  at.store.put("a/new");
  at.store.remove("a/x");
  CHECK(at.names(a).size() == 2);
  CHECK(at.store.take_calls().empty());
  Texts told;
  for (const auto& name : at.tree->refresh("a")) told.push_back(name.name);
  std::sort(told.begin(), told.end());
  CHECK(told == Texts{"a", "b", "x", "y"});
  CHECK(at.names(a) == Texts{"b/", "new"});
  CHECK(code_of(at.look(a, "x")) == base::Code::kNotFound);
  at.store.take_calls();
  at.names(c);
  CHECK(at.look(c, "z").has_value());
  CHECK(at.store.take_calls().empty());
  CHECK(at.tree->refresh("").size() >= 5);
  at.names(c);
  CHECK(at.store.take_calls().size() == 1);
}

TEST_CASE("refresh during a listing: its waiters get what the store says afterwards") {
  Fixture at;
  at.store.put("old");
  AwaitedListing listing = at.list_soon(kRootNode);
  CHECK(at.store.waiting() == 1);
  at.tree->refresh("");
  at.store.put("new");
  at.store.run_all();
  CHECK((*listing.get())->names.size() == 2);
  CHECK(listing.times() == 1);
}
