#include "s3/admission.h"

#include <doctest/doctest.h>

#include <string>

namespace shardfs::s3 {
namespace {

using namespace std::chrono_literals;
using store::Priority;

constexpr base::SteadyTime kNow{1h};

struct Waiter final : Admission::Waiter {
  Waiter(std::string n, std::string& l) : name(std::move(n)), log(l) {}
  void on_slot_granted() noexcept override { log += name; }
  std::string name;
  std::string& log;
};

struct Fixture {
  std::shared_ptr<Waiter> make(const std::string& name) { return std::make_shared<Waiter>(name, log); }
  int64_t active() { return metrics.gauge("store_connections_active").value(); }
  int64_t waiting() { return metrics.gauge("store_requests_waiting").value(); }
  int64_t limit() { return metrics.gauge("store_connections_limit").value(); }
  base::Metrics metrics;
  std::string log;
};

TEST_CASE("some slots are kept for demand") {
  Fixture f;
  Admission admission(16, f.metrics);  // 2 of 16 are kept
  std::vector<std::shared_ptr<Waiter>> all;
  int started = 0;
  for (int i = 0; i < 20; ++i) {
    all.push_back(f.make("r"));
    started += admission.ask(all.back(), Priority::kReadahead, false, kNow);
  }
  CHECK(started == 14);
  CHECK(admission.ask(f.make("d"), Priority::kDemand, false, kNow));
  CHECK(admission.ask(f.make("d"), Priority::kDemand, false, kNow));
  CHECK_FALSE(admission.ask(f.make("d"), Priority::kDemand, false, kNow));
  CHECK(f.active() == 16);
  CHECK(f.waiting() == 7);
}

TEST_CASE("one connection serves all, demand first, then in the order of asking") {
  Fixture f;
  Admission admission(1, f.metrics);
  const auto first = f.make("0"), warm = f.make("w"), a = f.make("a"), b = f.make("b"), d = f.make("d");
  CHECK(admission.ask(first, Priority::kReadahead, false, kNow));
  CHECK_FALSE(admission.ask(warm, Priority::kWarm, false, kNow));
  CHECK_FALSE(admission.ask(a, Priority::kReadahead, false, kNow));
  CHECK_FALSE(admission.ask(b, Priority::kReadahead, false, kNow));
  CHECK_FALSE(admission.ask(d, Priority::kDemand, false, kNow));
  for (const auto& done : {first, d, a, b, warm}) admission.release(*done);
  CHECK(f.log == "dabw");
  CHECK(f.active() == 0);
  CHECK(f.waiting() == 0);
}

TEST_CASE("a waiting one can be raised, withdrawn, or put first") {
  Fixture f;
  Admission admission(1, f.metrics);
  const auto first = f.make("0"), a = f.make("a"), b = f.make("b"), c = f.make("c"), again = f.make("x");
  CHECK(admission.ask(first, Priority::kDemand, false, kNow));
  for (const auto& waiter : {a, b, c}) CHECK_FALSE(admission.ask(waiter, Priority::kWarm, false, kNow));
  CHECK_FALSE(admission.ask(again, Priority::kWarm, true, kNow));
  admission.raise(c, Priority::kDemand);
  admission.raise(c, Priority::kReadahead);  // never down
  CHECK(admission.withdraw(*a));
  CHECK_FALSE(admission.withdraw(*a));
  for (const auto& done : {first, c, again, b}) admission.release(*done);
  CHECK(f.log == "cxb");
  CHECK(f.active() == 0);
}

TEST_CASE("raising starts at once where only demand may start") {
  Fixture f;
  Admission admission(4, f.metrics);  // 2 kept
  const auto a = f.make("a"), b = f.make("b"), c = f.make("c");
  CHECK(admission.ask(a, Priority::kReadahead, false, kNow));
  CHECK(admission.ask(b, Priority::kReadahead, false, kNow));
  CHECK_FALSE(admission.ask(c, Priority::kReadahead, false, kNow));
  admission.raise(c, Priority::kDemand);
  CHECK(f.log == "c");
  for (const auto& done : {a, b, c}) admission.release(*done);
  CHECK(f.active() == 0);
}

TEST_CASE("the limit falls with each refusal, and comes back") {
  Fixture f;
  Admission admission(64, f.metrics);
  const auto hold = f.make("h");
  CHECK(f.limit() == 24);
  for (int i = 0; i < 24; ++i) CHECK(admission.ask(hold, Priority::kDemand, false, kNow));
  const auto waiting = f.make("w");
  CHECK_FALSE(admission.ask(waiting, Priority::kDemand, false, kNow));
  CHECK_FALSE(admission.refused(kNow, kNow - 30ms));  // nobody was answered yet
  CHECK(f.limit() == 24);                             // the first one is forgiven
  admission.answered(kNow, 30ms);
  CHECK(admission.refused(kNow, kNow - 30ms));
  CHECK_FALSE(admission.refused(kNow, kNow + 1ms));
  CHECK(f.limit() == 22);
  CHECK(admission.limit() == 22);
  for (int i = 0; i < 2; ++i) admission.release(*hold);
  CHECK(f.log.empty());
  // One a millisecond is answered, and somebody always waits.
  auto now = kNow;
  for (int i = 0; i < 3000; ++i) {
    now += 1ms;
    admission.answered(now, 30ms);
    admission.finished(now, 1 << 20, 40ms);
  }
  CHECK(f.limit() > 22);
  CHECK(f.log == "w");
  CHECK(f.metrics.counter("store_requests_refused").value() == 3);
}

TEST_CASE("what is kept for demand is a part of the limit as it is now") {
  Fixture f;
  Admission admission(64, f.metrics);  // 24 now, of which 3 are kept
  const auto hold = f.make("h");
  int started = 0;
  while (admission.ask(hold, Priority::kReadahead, false, kNow)) ++started;
  CHECK(started == 21);
}

}  // namespace
}  // namespace shardfs::s3
