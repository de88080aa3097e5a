// The registry of counters, gauges and histograms of one mount.
// Not an exporter: control turns a snapshot into JSON or Prometheus text.
// Thread rule: thread-safe; updates are lock-free. Metrics live as long as the registry; references stay valid.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardfs::base {

class Counter {
 public:
  void add(uint64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t by) { value_.fetch_add(by, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

/// Durations in buckets that grow by a quarter power of two, from 1 us to about 25 minutes; the last bucket has no
/// bound.
class Histogram {
 public:
  static constexpr size_t kBuckets = 124;
  void record(std::chrono::nanoseconds duration);
  uint64_t count() const;
  std::chrono::nanoseconds sum() const { return std::chrono::nanoseconds(sum_ns_.load(std::memory_order_relaxed)); }
  /// An upper bound of the q-quantile, q in 0..1; zero when empty.
  std::chrono::nanoseconds quantile(double q) const;
  /// Upper bound of bucket i, which it includes; nanoseconds::max() for the last bucket.
  static std::chrono::nanoseconds bound(size_t i);
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_ns_{0};
};

/// Names are lower_snake_case with the unit last ("fetch_received_bytes"); one label at most ("kind" -> "get").
class Metrics {
 public:
  Counter& counter(std::string_view name, std::string_view label = {});
  Gauge& gauge(std::string_view name, std::string_view label = {});
  Histogram& histogram(std::string_view name, std::string_view label = {});

  template <class M>
  struct Entry {
    std::string name;
    std::string label;  // empty: none
    const M* metric;
  };
  std::vector<Entry<Counter>> counters() const;
  std::vector<Entry<Gauge>> gauges() const;
  std::vector<Entry<Histogram>> histograms() const;

 private:
  template <class M>
  struct Table {
    std::map<std::pair<std::string, std::string>, M*> by_name;
    std::deque<M> storage;
  };
  template <class M>
  M& find(Table<M>& table, std::string_view name, std::string_view label);
  template <class M>
  std::vector<Entry<M>> list(const Table<M>& table) const;

  mutable std::mutex mutex_;  // guards the tables, not the values
  Table<Counter> counters_;
  Table<Gauge> gauges_;
  Table<Histogram> histograms_;
};

}  // namespace shardfs::base
