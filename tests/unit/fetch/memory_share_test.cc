// One memory for the mount: readers share it.
#include <doctest/doctest.h>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;

TEST_CASE("a slow reader gives memory back to one that waits for its read-ahead; all is read") {
  Rig rig(false, 32 * kMiB);  // four of them are kept for demand
  auto slow = rig.open(48 * kMiB, "slow");
  slow->prefetch({0, 48 * kMiB}, fetch::Cause::kReadahead);
  for (int round = 0; round < 8; ++round)
    for (const auto& get : rig.store.open()) get->finish();
  CHECK(rig.metrics.gauge("fetch_memory_bytes").value() == static_cast<int64_t>(28 * kMiB));

  auto other = rig.open(24 * kMiB, "other");
  other->prefetch({0, 24 * kMiB}, fetch::Cause::kReadahead);
  uint64_t under_way = 0;
  for (const auto& get : rig.store.open_of("other")) under_way += get->range().size();
  CHECK(under_way == 14 * kMiB);  // a half each
  CHECK(rig.counter("fetch_given_back_blocks") == 14);
  CHECK(rig.metrics.gauge("fetch_memory_bytes").value() <= static_cast<int64_t>(32 * kMiB));

  rig.read_all(*other);
  other->closed();
  rig.read_all(*slow);
  slow->closed();
}

TEST_CASE("a file that is read alone has all of the memory") {
  Rig rig(false, 32 * kMiB);
  auto idle = rig.open(48 * kMiB, "idle");  // open, and never read
  auto file = rig.open(48 * kMiB, "read");
  file->prefetch({0, 48 * kMiB}, fetch::Cause::kReadahead);
  CHECK(rig.metrics.gauge("fetch_memory_bytes").value() == static_cast<int64_t>(28 * kMiB));
  rig.store.finish_all();
  idle->closed();
  file->closed();
}

TEST_CASE("sixty-four files at once: the memory is a hard limit, windows shrink, nothing fails") {
  Rig rig(false, 16 * kMiB, 16);
  std::vector<std::shared_ptr<fetch::SourceFile>> files;
  for (int i = 0; i < 64; ++i) files.push_back(rig.open(4 * kMiB + 5, "k" + std::to_string(i)));
  for (uint64_t at = 0; at < 4 * kMiB + 5; at += 512 * kKiB) {
    std::vector<Answer> answers(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      rig.read(*files[i], {at, at + 512 * kKiB}, answers[i]);
      CHECK(rig.metrics.gauge("fetch_memory_bytes").value() <= static_cast<int64_t>(16 * kMiB));
    }
    const auto unanswered = [&] {
      return std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.calls == 0; });
    };
    while (unanswered()) {  // what was dropped is wanted again by the timer
      for (const auto& get : rig.store.open())
        get->cancelled ? get->end(base::fail(Code::kCancelled, "")) : get->finish();
      std::this_thread::yield();
    }
    for (const auto& answer : answers) CHECK(Rig::right(answer, {at, std::min(at + 512 * kKiB, 4 * kMiB + 5)}));
  }
  rig.store.finish_all();
  for (const auto& file : files) file->closed();
}

TEST_CASE("what a scan comes to stays in memory; a guess does not take its place, until the reader pauses") {
  Rig rig(true, 32 * kMiB);
  auto scanned = rig.open(24 * kMiB, "scanned");
  Answer first;
  rig.read(*scanned, {0, 4096}, first);
  const auto arrive = [&](const char* key) {
    for (int round = 0; round < 16; ++round) {
      for (const auto& get : rig.store.open_of(key)) get->finish();
      rig.disk.run();
    }
  };
  scanned->prefetch({0, 24 * kMiB}, fetch::Cause::kReadahead);
  arrive("scanned");
  CHECK(rig.cache.files["scanned"]->complete());
  auto next = rig.find("next", 24 * kMiB);
  next->prefetch({0, 24 * kMiB}, fetch::Cause::kNextShard);
  arrive("next");
  CHECK(rig.store.asked_bytes() == 24 * kMiB);  // half of the memory is not free
  rig.clock.advance(std::chrono::seconds(3));
  next->prefetch({8 * kMiB, 24 * kMiB}, fetch::Cause::kNextShard);
  arrive("next");
  CHECK(rig.store.asked_bytes() == 48 * kMiB);
  Answer later;
  rig.read(*scanned, {4096, 1 * kMiB}, later);
  CHECK(Rig::right(later, {4096, 1 * kMiB}));
  scanned->closed();
}

TEST_CASE("without a cache, what was guessed is kept for its reader, until it is given up") {
  Rig rig(false, 32 * kMiB);
  auto next = rig.find("next", 8 * kMiB);
  next->prefetch({0, 8 * kMiB}, fetch::Cause::kNextShard);
  rig.store.finish_all();
  auto scanned = rig.open(64 * kMiB, "scanned");
  scanned->prefetch({0, 64 * kMiB}, fetch::Cause::kReadahead);
  rig.store.finish_all();
  CHECK(rig.metrics.gauge("fetch_memory_bytes").value() == static_cast<int64_t>(28 * kMiB));
  SUBCASE("it comes") {
    next->opened(1);
    Answer answer;
    rig.read(*next, {0, 4096}, answer);
    CHECK(Rig::right(answer, {0, 4096}));
    next->closed();
  }
  SUBCASE("it was a mistake") {
    next->cancel_prefetch();
    scanned->prefetch({60 * kMiB, 64 * kMiB}, fetch::Cause::kReadahead);
    uint64_t under_way = 0;
    for (const auto& get : rig.store.open_of("scanned")) under_way += get->range().size();
    CHECK(under_way == 8 * kMiB);
  }
  SUBCASE("a minute later") {
    rig.clock.advance(std::chrono::minutes(1));
    scanned->prefetch({60 * kMiB, 64 * kMiB}, fetch::Cause::kReadahead);
    CHECK_FALSE(rig.store.open_of("scanned").empty());
  }
  scanned->closed();
}
