#include "base/metrics.h"

#include <doctest/doctest.h>

#include <thread>

namespace shardfs::base {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("the same name and label is the same metric") {
  Metrics metrics;
  Counter& get = metrics.counter("requests", "get");
  Counter& head = metrics.counter("requests", "head");
  CHECK(&get != &head);
  CHECK(&metrics.counter("requests", "get") == &get);
  get.add();
  get.add(4);
  CHECK(metrics.counter("requests", "get").value() == 5);
  CHECK(head.value() == 0);
}

TEST_CASE("references stay valid while the registry grows") {
  Metrics metrics;
  Counter& first = metrics.counter("first");
  Gauge& gauge = metrics.gauge("gauge");
  for (int n = 0; n < 1000; ++n) metrics.counter("counter_" + std::to_string(n)).add();
  first.add(7);
  gauge.set(3);
  gauge.add(-5);
  CHECK(metrics.counter("first").value() == 7);
  CHECK(metrics.gauge("gauge").value() == -2);
  CHECK(metrics.counters().size() == 1001);
}

TEST_CASE("a listing has every metric once, in order, with its label") {
  Metrics metrics;
  metrics.counter("b", "two").add(2);
  metrics.counter("b", "one").add(1);
  metrics.counter("a").add(3);
  metrics.gauge("g").set(9);
  metrics.histogram("h").record(seconds(1));
  const auto counters = metrics.counters();
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].name == "a");
  CHECK(counters[0].label.empty());
  CHECK(counters[0].metric->value() == 3);
  CHECK(counters[1].label == "one");
  CHECK(counters[2].label == "two");
  REQUIRE(metrics.gauges().size() == 1);
  CHECK(metrics.gauges()[0].metric->value() == 9);
  REQUIRE(metrics.histograms().size() == 1);
  CHECK(metrics.histograms()[0].metric->count() == 1);
}

TEST_CASE("bounds grow by a quarter power of two and end without a bound") {
  CHECK(Histogram::bound(0) == microseconds(1));
  CHECK(Histogram::bound(4) == microseconds(2));
  CHECK(Histogram::bound(40) == microseconds(1024));
  CHECK(Histogram::bound(120) == microseconds(1 << 30));
  for (size_t i = 1; i < Histogram::kBuckets; ++i) CHECK(Histogram::bound(i) > Histogram::bound(i - 1));
  CHECK(Histogram::bound(Histogram::kBuckets - 1) == nanoseconds::max());
  CHECK(Histogram::bound(Histogram::kBuckets + 5) == nanoseconds::max());
}

TEST_CASE("a bucket includes its bound and nothing above it") {
  Histogram histogram;
  histogram.record(nanoseconds(-1));
  histogram.record(nanoseconds(0));
  histogram.record(microseconds(1));
  CHECK(histogram.bucket(0) == 3);
  histogram.record(nanoseconds(1001));
  CHECK(histogram.bucket(1) == 1);
  for (size_t i = 2; i + 1 < Histogram::kBuckets; ++i) {
    Histogram one;
    one.record(Histogram::bound(i));
    one.record(Histogram::bound(i) + nanoseconds(1));
    CHECK(one.bucket(i) == 1);
    CHECK(one.bucket(i + 1) == 1);
  }
}

TEST_CASE("a quantile is an upper bound, within a quarter power of two") {
  Histogram histogram;
  CHECK(histogram.quantile(0.5) == nanoseconds(0));
  for (int n = 1; n <= 1000; ++n) histogram.record(microseconds(n * 10));
  CHECK(histogram.count() == 1000);
  CHECK(histogram.sum() == microseconds(10 * 1000 * 1001 / 2));
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    CAPTURE(q);
    const auto exact = microseconds(static_cast<int64_t>(q * 1000 + 0.5) * 10);
    CHECK(histogram.quantile(q) >= exact);
    CHECK(histogram.quantile(q) <= nanoseconds(static_cast<int64_t>(static_cast<double>(exact.count()) * 1000 * 1.19)));
  }
  CHECK(histogram.quantile(0) >= microseconds(10));
  CHECK(histogram.quantile(-3) == histogram.quantile(0));
  CHECK(histogram.quantile(7) == histogram.quantile(1));
}

TEST_CASE("what is longer than all bounds is counted too") {
  Histogram histogram;
  histogram.record(std::chrono::hours(24));
  CHECK(histogram.bucket(Histogram::kBuckets - 1) == 1);
  CHECK(histogram.count() == 1);
  CHECK(histogram.quantile(0.5) == nanoseconds::max());
}

TEST_CASE("updates from many threads all count, while others list") {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        metrics.counter("shared").add();
        metrics.gauge("level").add(n % 2 == 0 ? 1 : -1);
        metrics.histogram("time").record(milliseconds(1));
        if (n % 100 == 0) metrics.counter("label", std::to_string(n)).add();
      }
    });
  }
  std::thread lister([&] {
    for (int n = 0; n < 100; ++n) {
      for (const auto& entry : metrics.histograms()) static_cast<void>(entry.metric->quantile(0.9));
      static_cast<void>(metrics.counters());
    }
  });
  for (auto& thread : threads) thread.join();
  lister.join();
  CHECK(metrics.counter("shared").value() == 8000);
  CHECK(metrics.gauge("level").value() == 0);
  CHECK(metrics.histogram("time").count() == 8000);
  CHECK(metrics.counters().size() == 21);
}

}  // namespace
}  // namespace shardfs::base
