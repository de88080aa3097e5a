// Demand goes first, also when every connection is busy with read-ahead.
#include <doctest/doctest.h>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;

namespace {

base::Result<void> cancelled() { return base::fail(Code::kCancelled, "cancelled"); }

}  // namespace

TEST_CASE("a demand read that finds no connection takes that of the read-ahead part with the least") {
  Rig rig(true, 64 * kMiB, 4);  // two of four are kept for demand
  auto scanned = rig.open(16 * kMiB, "scanned");
  scanned->prefetch({0, 16 * kMiB}, fetch::Cause::kReadahead);
  auto ahead = rig.store.open();
  REQUIRE(ahead.size() == 2);
  ahead[0]->send(3 * kMiB);
  ahead[1]->send(kMiB + 4096 + 5);

  auto other = rig.open(64 * kMiB, "other");
  std::vector<Answer> answers(3);
  const auto place = [](size_t i) { return ByteRange{10 * kMiB * (i + 1), 10 * kMiB * (i + 1) + 4096}; };
  for (size_t i = 0; i < answers.size(); ++i) rig.read(*other, place(i), answers[i]);
  CHECK(rig.store.open_of("other").size() == 2);
  CHECK_FALSE(ahead[0]->cancelled);
  REQUIRE(ahead[1]->cancelled);
  CHECK(rig.counter("fetch_preempted_parts") == 1);

  ahead[1]->end(cancelled());
  auto demand = rig.store.open_of("other");
  REQUIRE(demand.size() == 3);
  CHECK(demand[2]->range().contains(place(2)));
  demand[2]->finish();
  CHECK(Rig::right(answers[2], place(2)));
  // What had arrived is kept, the rest is fetched as soon as a connection is free.
  auto again = rig.store.open_of("scanned");
  REQUIRE(again.size() == 2);
  CHECK(again[1]->range() == ByteRange{9 * kMiB + 4096, 16 * kMiB});
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.cache.files["scanned"]->complete());
  CHECK(rig.counter("fetch_received_bytes", "readahead") == 16 * kMiB + 5);
  CHECK(rig.counter("fetch_preempted_parts") == 1);
  rig.read_all(*scanned);
  scanned->closed();
  other->closed();
}

TEST_CASE("the least urgent cause goes first, and never what a reader waits for") {
  Rig rig(true, 64 * kMiB, 4);
  auto scanned = rig.open(8 * kMiB, "scanned");
  scanned->prefetch({0, 8 * kMiB}, fetch::Cause::kReadahead);
  rig.find("next", 8 * kMiB)->prefetch({0, 8 * kMiB}, fetch::Cause::kNextShard);
  auto next = rig.store.open_of("next");
  REQUIRE(next.size() == 1);
  next[0]->send(4 * kMiB);
  auto other = rig.open(64 * kMiB, "other");
  std::vector<Answer> answers(4);
  for (uint64_t i = 0; i < 3; ++i) rig.read(*other, {10 * kMiB * i + 4096, 10 * kMiB * i + 8192}, answers[i]);
  CHECK(next[0]->cancelled);
  CHECK_FALSE(rig.store.open_of("scanned")[0]->cancelled);
  next[0]->end(cancelled());
  // The only other one is waited for: nothing is cancelled, the demand part waits for a connection.
  Answer waits;
  rig.read(*scanned, {4 * kMiB, 4 * kMiB + 4096}, waits);
  rig.read(*other, {40 * kMiB, 40 * kMiB + 4096}, answers[3]);
  CHECK_FALSE(rig.store.open_of("scanned")[0]->cancelled);
  CHECK(rig.store.open().size() == 4);
  rig.store.finish_all();
  CHECK(Rig::right(waits, {4 * kMiB, 4 * kMiB + 4096}));
  CHECK(Rig::right(answers[3], {40 * kMiB, 40 * kMiB + 4096}));
  CHECK(rig.counter("fetch_received_bytes", "next_shard") == 8 * kMiB);
  scanned->closed();
  other->closed();
}

TEST_CASE("a store that wants fewer connections: a few parts wait there, and demand passes them") {
  Rig rig(true, 64 * kMiB, 16);
  rig.store.limit = 4;
  auto scanned = rig.open(48 * kMiB, "scanned");
  scanned->prefetch({0, 48 * kMiB}, fetch::Cause::kReadahead);
  auto ahead = rig.store.open();
  REQUIRE(ahead.size() == 4);  // two are kept for demand, two wait
  auto other = rig.open(64 * kMiB, "other");
  std::vector<Answer> answers(3);
  for (uint64_t i = 0; i < 2; ++i) rig.read(*other, {10 * kMiB * i + 4096, 10 * kMiB * i + 8192}, answers[i]);
  CHECK(rig.counter("fetch_preempted_parts") == 0);
  rig.read(*other, {30 * kMiB, 30 * kMiB + 4096}, answers[2]);
  CHECK(rig.store.open_of("other").size() == 3);
  CHECK(rig.counter("fetch_preempted_parts") == 1);
  CHECK(ahead[0]->cancelled);
  while (!rig.store.open().empty()) {
    rig.store.finish_all();
    rig.disk.run();
  }
  CHECK(rig.counter("fetch_received_bytes", "readahead") == 48 * kMiB);
  scanned->closed();
  other->closed();
}
