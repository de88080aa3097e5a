// Outages: what was known is served, and what was not known is an error, never "no such file".
#include <doctest/doctest.h>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

TreeOptions quick() {
  TreeOptions options;
  options.stale_after = milliseconds(1);
  return options;
}
TreeOptions patient() {
  TreeOptions options;
  options.stale_after = std::chrono::hours(1);
  return options;
}

std::optional<base::Error> outage(const FakeStore::Call&) { return base::Error{base::Code::kTransient, "outage"}; }

}  // namespace

TEST_CASE("a store that does not answer: the last known is served, and the answer is used when it comes") {
  Fixture at(quick());
  at.store.put("a", 3, "v1");
  const auto node = at.look(kRootNode, "a");
  at.store.put("a", 4, "v2");
  at.clock.advance(seconds(61));
  const auto waiting = at.lookup(kRootNode, "a");  // nobody answers: the timer does
  const auto stale = waiting.get();
  REQUIRE(stale);
  CHECK(stale->id == node->id);
  CHECK(stale->valid_for == seconds(1));
  CHECK(at.count("tree_stale_answers") == 1);
  CHECK(at.lookup(kRootNode, "a").get()->id == node->id);  // at once, and no further request
  CHECK(at.getattr(node->id).get()->id == node->id);
  CHECK(at.count("tree_stale_answers") == 3);
  CHECK(at.store.waiting() == 1);
  at.store.run_all();
  CHECK(waiting.times() == 1);
  CHECK(at.look(kRootNode, "a")->info.etag == "v2");
  CHECK(code_of(at.getattr(node->id).get()) == base::Code::kChanged);
}

TEST_CASE("a flight that is overdue keeps nobody waiting") {
  Fixture at(quick());
  at.store.put("a");
  at.look(kRootNode, "a");
  at.clock.advance(seconds(61));
  CHECK(at.lookup(kRootNode, "a").get());
  at.clock.advance(seconds(30));
  CHECK(at.lookup(kRootNode, "a").get());
  CHECK(at.store.waiting() == 1);
}

TEST_CASE("answers of an outage: transient and timeout are bridged, others are not") {
  for (const auto code : {base::Code::kTransient, base::Code::kTimeout}) {
    Fixture at(patient());
    at.store.put("a");
    at.store.put("d/x");
    const auto node = at.look(kRootNode, "a");
    const auto directory = at.look(kRootNode, "d");
    at.clock.advance(seconds(61));
    at.store.fail_with = [code](const FakeStore::Call&) { return base::Error{code, "outage"}; };
    CHECK(at.look(kRootNode, "a")->id == node->id);
    CHECK(at.look(kRootNode, "d")->id == directory->id);
    CHECK(at.stat(node->id)->id == node->id);
    CHECK(at.count("tree_stale_answers") == 3);
    CHECK(code_of(at.look(directory->id, "new")) == code);
    at.store.fail_with = nullptr;
    at.clock.advance(seconds(2));
    CHECK(at.look(kRootNode, "a")->valid_for == seconds(60));
  }
  Fixture at(patient());
  at.store.put("a");
  at.look(kRootNode, "a");
  at.clock.advance(seconds(61));
  at.store.fail_with = [](const FakeStore::Call&) { return base::Error{base::Code::kPermission, "revoked"}; };
  CHECK(code_of(at.look(kRootNode, "a")) == base::Code::kPermission);
}

TEST_CASE("without stale-if-error an outage is an error") {
  TreeOptions options = quick();
  options.stale_if_error = false;
  Fixture at(options);
  at.store.put("a");
  const auto node = at.look(kRootNode, "a");
  at.list(kRootNode);
  at.clock.advance(seconds(61));
  at.store.fail_with = [](const FakeStore::Call&) { return base::Error{base::Code::kTimeout, "outage"}; };
  CHECK(code_of(at.look(kRootNode, "a")) == base::Code::kTimeout);
  CHECK(code_of(at.stat(node->id)) == base::Code::kTimeout);
  CHECK(at.names(kRootNode) == Texts{"error timeout"});
  CHECK(at.timer.pending() == 0);
  CHECK(at.count("tree_stale_answers") == 0);
}

TEST_CASE("a negative answer is never made of an error") {
  Fixture at(quick());
  CHECK(code_of(at.look(kRootNode, "b")) == base::Code::kNotFound);
  at.clock.advance(seconds(3));
  at.store.fail_with = outage;
  CHECK(code_of(at.look(kRootNode, "b")) == base::Code::kTransient);
  at.store.fail_with = nullptr;
  at.store.put("a");
  at.list(kRootNode);
  at.clock.advance(seconds(61));
  at.store.fail_with = outage;
  CHECK(code_of(at.look(kRootNode, "b")) == base::Code::kTransient);
  CHECK(at.look(kRootNode, "a"));
}

TEST_CASE("an old listing is served in an outage, also for lookups, and renewed after it") {
  Fixture at(patient());
  at.store.put("a");
  at.store.put("b");
  CHECK(at.names(kRootNode) == Texts{"a", "b"});
  at.store.put("c");
  at.clock.advance(seconds(61));
  at.store.fail_with = outage;
  CHECK(at.names(kRootNode) == Texts{"a", "b"});
  const auto node = at.look(kRootNode, "a");
  REQUIRE(node);
  CHECK(node->valid_for == seconds(1));
  const auto listing = at.list(kRootNode);
  CHECK(at.tree->enter(kRootNode, (*listing)->names.front())->valid_for == seconds(1));
  CHECK(at.count("tree_stale_answers") == 3);
  at.store.fail_with = nullptr;
  at.clock.advance(seconds(2));
  CHECK(at.names(kRootNode) == Texts{"a", "b", "c"});
}

TEST_CASE("an old listing is served when the store is silent, and the new one goes on in its time") {
  Fixture at(quick());
  at.store.page_limit = 1;
  at.store.put("a");
  at.store.put("b");
  at.list(kRootNode);
  at.store.put("c");
  at.clock.advance(seconds(61));
  const auto waiting = at.list_soon(kRootNode);
  CHECK((*waiting.get())->names.size() == 2);
  at.store.run_all();  // all three pages, though nobody waits
  CHECK(waiting.times() == 1);
  CHECK(at.names(kRootNode) == Texts{"a", "b", "c"});
  CHECK(at.store.calls().size() == 5);
}

TEST_CASE("a node whose name was dropped from memory is still something known") {
  TreeOptions options = quick();
  options.listed_names_limit = 3;
  Fixture at(options);
  at.store.put("x/a");
  const auto node = at.walk("x/a");
  for (int i = 0; i < 5; ++i) at.store.put("y" + std::to_string(i) + "/b");
  for (int i = 0; i < 5; ++i) at.walk("y" + std::to_string(i) + "/b");
  at.store.take_calls();
  const auto again = at.look(node->parent, "a");
  CHECK(again->id == node->id);
  CHECK(at.store.take_calls() == Texts{"HEAD x/a"});
}

TEST_CASE("the timers are gone with the answers") {
  Fixture at(patient());
  at.store.put("a");
  at.look(kRootNode, "a");
  at.list(kRootNode);
  at.clock.advance(seconds(61));
  at.look(kRootNode, "a");
  at.list(kRootNode);
  CHECK(at.timer.pending() == 0);
  at.clock.advance(seconds(61));
  const auto waiting = at.lookup(kRootNode, "a");
  const auto listing = at.list_soon(kRootNode);
  CHECK(at.timer.pending() == 2);
  at.tree.reset();
  CHECK(at.timer.pending() == 0);
  CHECK(code_of(waiting.get()) == base::Code::kCancelled);
  CHECK(code_of(listing.get()) == base::Code::kCancelled);
}
