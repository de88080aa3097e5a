// Parts that are later than the store's usual tail, by a clock that stands still until it is moved.
#include <doctest/doctest.h>

#include <thread>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;
using std::chrono::milliseconds;

namespace {

base::Result<void> cancelled() { return base::fail(Code::kCancelled, "cancelled"); }

/// Answers `count` reads, each after 10 ms: late is what is silent for more than 200 ms.
void learn(Rig& rig, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto file = rig.open(4096, "learn" + std::to_string(i));
    Answer answer;
    rig.read(*file, {0, 4096}, answer);
    rig.clock.advance(milliseconds(10));
    rig.store.finish_all();
    rig.disk.run();
    REQUIRE(Rig::right(answer, {0, 4096}));
    file->closed();
  }
}

struct Late {
  explicit Late(Rig& rig, uint64_t size = 2 * kMiB) : file(rig.open(size, "late")) {
    rig.read(*file, range, answer);
    auto gets = rig.store.open_of("late");
    REQUIRE_FALSE(gets.empty());
    first = gets[0];
  }
  ~Late() { file->closed(); }
  /// The second request for it, when the timer has seen that it is late.
  void wait_for_second(Rig& rig) {
    while (!second) {
      for (const auto& get : rig.store.open_of("late"))
        if (get != first && get->range().end == first->range().end) second = get;
      std::this_thread::yield();
    }
  }
  const ByteRange range{0, 64 * kKiB};
  std::shared_ptr<fetch::SourceFile> file;
  Answer answer;
  std::shared_ptr<ManualStore::Get> first, second;
};

}  // namespace

TEST_CASE("a part that is late is asked for a second time, and the first answer wins") {
  Rig rig(true);
  learn(rig, 40);
  Late late(rig);
  rig.clock.advance(milliseconds(199));
  rig.pass_ticks();
  CHECK(rig.counter("fetch_hedged_parts") == 0);
  rig.clock.advance(milliseconds(2));
  late.wait_for_second(rig);
  CHECK(late.second->range() == late.first->range());
  CHECK(late.second->options.priority == store::Priority::kDemand);
  SUBCASE("the second") {
    CHECK(late.second->send(64 * kKiB));
    CHECK(Rig::right(late.answer, late.range));
    CHECK(late.first->cancelled);
    CHECK_FALSE(late.first->send(64 * kKiB));
    late.first->end(cancelled());
    CHECK(rig.counter("fetch_hedges_won") == 1);
  }
  SUBCASE("the first after all") {
    CHECK(late.first->send(64 * kKiB));
    CHECK(Rig::right(late.answer, late.range));
    CHECK(late.second->cancelled);
    CHECK_FALSE(late.second->send(64 * kKiB));
    late.second->end(cancelled());
    CHECK(rig.counter("fetch_hedges_won") == 0);
  }
  SUBCASE("one fails, the other goes on") {
    late.first->end(base::fail(Code::kTransient, "503"));
    CHECK(late.answer.calls == 0);
    late.second->finish();
    CHECK(Rig::right(late.answer, late.range));
  }
  SUBCASE("both fail") {
    late.second->end(base::fail(Code::kTransient, "503"));
    CHECK(late.answer.calls == 0);
    late.first->end(base::fail(Code::kTimeout, "no answer"));
    CHECK(late.answer.error == Code::kTimeout);
  }
  SUBCASE("the mount ends") {
    rig.shut_down();
    CHECK(late.answer.error == Code::kCancelled);
  }
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.counter("fetch_hedged_parts") == 1);
  CHECK(rig.metrics.gauge("fetch_parts").value() == 0);
}

TEST_CASE("a part that stalls is asked for from where it is, and the other takes over when it is ahead") {
  Rig rig(true);
  learn(rig, 40);
  Late late(rig, 8 * kMiB);
  REQUIRE(late.first->range().size() >= kMiB);
  late.first->send(32 * kKiB + 100);
  rig.clock.advance(milliseconds(201));
  late.wait_for_second(rig);
  CHECK(late.second->range() == ByteRange{32 * kKiB, late.first->range().end});
  CHECK(late.first->send(8 * kKiB));  // it goes on, slowly
  CHECK(late.second->send(4 * kKiB));
  CHECK_FALSE(late.first->cancelled);
  CHECK(late.second->send(60 * kKiB));
  CHECK(Rig::right(late.answer, late.range));
  CHECK(late.first->cancelled);
  CHECK_FALSE(late.first->send(4 * kKiB));
  late.first->end(cancelled());
  late.second->finish();
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.counter("fetch_hedges_won") == 1);
  uint64_t received = 0;
  for (const char* cause : {"demand", "readahead"}) received += rig.counter("fetch_received_bytes", cause);
  CHECK(received == 8 * kMiB + 40 * 4096);
  rig.read_all(*late.file);
}

TEST_CASE("second requests are a twentieth of the parts, and the last of them is for who waits") {
  Rig rig(true, 64 * kMiB);
  learn(rig, 30);
  auto a = rig.open(4096, "a"), b = rig.open(8 * kMiB, "b"), c = rig.open(4096, "c");
  Answer answer_a, answer_c;
  b->prefetch({0, 8 * kMiB}, fetch::Cause::kReadahead);
  rig.clock.advance(milliseconds(210));
  rig.pass_ticks();
  CHECK(rig.counter("fetch_hedged_parts") == 0);  // kept for who waits
  rig.read(*a, {0, 4096}, answer_a);
  rig.read(*c, {0, 4096}, answer_c);
  rig.clock.advance(milliseconds(210));
  rig.pass_ticks();
  CHECK(rig.counter("fetch_hedged_parts") == 1);
  CHECK(rig.store.open_of("b").size() == 1);
  rig.store.finish_all();
  for (const auto& file : {a, b, c}) file->closed();
}

TEST_CASE("read-ahead that is late is asked for again before its reader comes; a guess is not") {
  Rig rig(true, 64 * kMiB);
  learn(rig, 45);
  auto read = rig.open(8 * kMiB, "late");
  read->prefetch({0, 8 * kMiB}, fetch::Cause::kReadahead);
  auto guessed = rig.find("guessed", 8 * kMiB);
  guessed->prefetch({0, 8 * kMiB}, fetch::Cause::kNextShard);
  rig.clock.advance(milliseconds(210));
  rig.pass_ticks();
  CHECK(rig.store.open_of("late").size() == 2);
  CHECK(rig.store.open_of("guessed").size() == 1);
  rig.store.finish_all();
  read->closed();
}

TEST_CASE("nothing is late before enough is known") {
  Rig rig(true);
  learn(rig, 19);
  Late late(rig, 4096);
  rig.clock.advance(std::chrono::seconds(5));
  rig.pass_ticks();
  CHECK(rig.counter("fetch_hedged_parts") == 0);
  rig.store.finish_all();
}

TEST_CASE("two requests that race for one part, and a reader of it") {
  for (int round = 0; round < 20; ++round) {
    Rig rig(round % 2 == 0);
    learn(rig, 40);
    Late late(rig, kMiB);
    if (round % 4 < 2) late.first->send(5000);
    rig.clock.advance(milliseconds(210));
    late.wait_for_second(rig);
    const auto run = [](ManualStore::Get& get) {
      const uint64_t size = get.range().size();
      bool wanted = true;
      while (wanted && get.sent < size && !get.cancelled) wanted = get.send(std::min<uint64_t>(size - get.sent, 12345));
      get.end(wanted && get.sent == size ? base::Result<void>{} : cancelled());
    };
    std::thread first([&] { run(*late.first); });
    std::thread second([&] { run(*late.second); });
    std::vector<Answer> answers(16);
    for (uint64_t i = 0; i < answers.size(); ++i)
      rig.read(*late.file, {i * 64 * kKiB, (i + 1) * 64 * kKiB}, answers[i]);
    first.join();
    second.join();
    rig.store.finish_all();
    CHECK(Rig::right(late.answer, late.range));
    for (uint64_t i = 0; i < answers.size(); ++i) {
      CAPTURE(round);
      CAPTURE(i);
      CAPTURE(answers[i].calls);
      CAPTURE(answers[i].error.has_value());
      CAPTURE(answers[i].bytes.size());
      CHECK(Rig::right(answers[i], {i * 64 * kKiB, (i + 1) * 64 * kKiB}));
    }
    rig.disk.run();
  }
}
