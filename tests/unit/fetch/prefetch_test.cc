// What is wanted before it is asked for: who goes first, when a prefetch has come to its end, how it is given up.
#include <doctest/doctest.h>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;

TEST_CASE("causes go in their order, and within one cause files take turns") {
  Rig rig(true, 64 * kMiB, 3);  // one of three is kept for demand
  rig.options.part_bytes = 4 * kMiB;
  const auto of = [&](const char* key) { return rig.fetcher->open({key, 16 * kMiB, "\"e\"", {}, "", false}); };
  const auto a = of("a"), b = of("b"), c = of("c"), d = of("d");
  a->prefetch({0, 16 * kMiB}, fetch::Cause::kWarm);
  REQUIRE(rig.store.open().size() == 2);
  b->prefetch({0, 4 * kMiB}, fetch::Cause::kNextShard);
  c->prefetch({0, 4 * kMiB}, fetch::Cause::kSmallFiles);
  d->prefetch({0, 4 * kMiB}, fetch::Cause::kReadahead);
  const auto started_next = [&] {
    rig.store.open().front()->finish();
    const auto& get = *rig.store.gets.back();
    return std::pair(get.options.key, get.options.priority);
  };
  CHECK(started_next() == std::pair(std::string("d"), store::Priority::kReadahead));
  CHECK(started_next() == std::pair(std::string("c"), store::Priority::kReadahead));
  CHECK(started_next() == std::pair(std::string("b"), store::Priority::kWarm));
}

TEST_CASE("a prefetch tells once that nothing of it is wanted or under way any more") {
  Rig rig(true);
  int told = 0;
  const auto tell = [&] { ++told; };
  auto file = rig.open(20 * kMiB);
  SUBCASE("it arrived") {
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kNextShard, tell);
    auto gets = rig.store.open();
    REQUIRE(gets.size() == 3);
    gets[0]->finish();
    gets[1]->finish();
    CHECK(told == 0);
    gets[2]->finish();
    CHECK(told == 1);
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kNextShard, tell);  // resident
    CHECK(told == 2);
    CHECK(rig.store.asked_bytes() == 20 * kMiB);
    CHECK(rig.counter("fetch_received_bytes", "next_shard") == 20 * kMiB);
  }
  SUBCASE("it is under way for another reason") {
    Answer answer;
    rig.read(*file, {0, 4096}, answer);
    file->prefetch({0, 16 * kMiB}, fetch::Cause::kWarm, tell);
    CHECK(told == 0);
    rig.store.finish_all();
    CHECK(told == 1);
    CHECK(rig.counter("fetch_received_bytes", "warm") == 0);
  }
  SUBCASE("it failed") {
    file->prefetch({0, 4096}, fetch::Cause::kSmallFiles, tell);
    rig.store.open()[0]->end(base::fail(Code::kTransient, "503"));
    CHECK(told == 1);
    CHECK(rig.store.open().empty());
  }
  SUBCASE("the object is gone") {
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kNextShard, tell);
    for (const auto& get : rig.store.open()) get->end(base::fail(Code::kNotFound, "404"));
    CHECK(told == 1);
  }
  SUBCASE("it is empty") {
    file->prefetch({20 * kMiB, 30 * kMiB}, fetch::Cause::kWarm, tell);
    CHECK(told == 1);
  }
  SUBCASE("it is cancelled: what a reader waits for goes on") {
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kSmallFiles, tell);
    Answer answer;
    rig.read(*file, {2 * kMiB, 2 * kMiB + 4096}, answer);
    auto gets = rig.store.open();
    REQUIRE(gets.size() == 3);
    CHECK(gets[0]->raised);
    file->cancel_prefetch();
    CHECK_FALSE(gets[0]->cancelled);
    CHECK(gets[1]->cancelled);
    CHECK(gets[2]->cancelled);
    CHECK(told == 0);
    rig.store.finish_all();
    CHECK(told == 1);
    CHECK(Rig::right(answer, {2 * kMiB, 2 * kMiB + 4096}));
  }
  SUBCASE("the mount ends") {
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kWarm, tell);
    rig.shut_down();
    CHECK(told == 1);
    file->prefetch({0, 20 * kMiB}, fetch::Cause::kWarm, tell);
    CHECK(told == 2);
  }
  file->closed();
}

TEST_CASE("cancelling a prefetch drops what has not begun") {
  Rig rig(true, 64 * kMiB, 3);
  int told = 0;
  auto file = rig.fetcher->open({"k", 64 * kMiB, "\"e\"", {}, "", false});
  file->prefetch({0, 64 * kMiB}, fetch::Cause::kNextShard, [&] { ++told; });
  REQUIRE(rig.store.open().size() == 2);
  rig.store.open()[0]->send(kMiB);
  file->cancel_prefetch();
  rig.store.finish_all();
  CHECK(rig.store.gets.size() == 2);
  CHECK(told == 1);
  rig.disk.run();
  CHECK(rig.cache.file->writes == 1);  // what had arrived stays
}

TEST_CASE("a file that a reader opens is not a guess any more") {
  Rig rig(true, 64 * kMiB, 3);
  auto file = rig.fetcher->open({"k", 16 * kMiB, "\"e\"", {}, "", false});
  file->prefetch({0, 16 * kMiB}, fetch::Cause::kNextShard);
  auto gets = rig.store.open();
  REQUIRE(gets.size() == 2);
  file->opened(1);
  CHECK(gets[0]->raised);
  file->cancel_prefetch();
  CHECK_FALSE(gets[0]->cancelled);
  rig.store.finish_all();
  CHECK(rig.counter("fetch_received_bytes", "next_shard") == 16 * kMiB);
  file->closed();
}

TEST_CASE("guesses leave half of the memory free, and give up saved blocks for each other") {
  Rig rig(true, 32 * kMiB);
  auto guessed = rig.fetcher->open({"k", 64 * kMiB, "\"e\"", {}, "", false});
  guessed->prefetch({0, 64 * kMiB}, fetch::Cause::kNextShard);
  CHECK(rig.metrics.gauge("fetch_memory_bytes").value() == static_cast<int64_t>(16 * kMiB));
  CHECK(rig.store.open().size() == 2);
  for (int round = 0; round < 8; ++round) {
    for (const auto& get : rig.store.open()) get->finish();
    rig.disk.run();
    CHECK(rig.metrics.gauge("fetch_memory_bytes").value() <= static_cast<int64_t>(16 * kMiB));
  }
  CHECK(rig.cache.file->complete());
  CHECK(rig.store.asked_bytes() == 64 * kMiB);
}
