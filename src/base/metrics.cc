#include "base/metrics.h"

#include <algorithm>
#include <cmath>

namespace shardfs::base {
namespace {

using Bounds = std::array<int64_t, Histogram::kBuckets>;

const Bounds& bounds_ns() {
  static const Bounds bounds = [] {
    Bounds made{};
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = static_cast<int64_t>(std::llround(1000 * std::exp2(static_cast<double>(i) / 4)));
    }
    made.back() = std::chrono::nanoseconds::max().count();
    return made;
  }();
  return bounds;
}

}  // namespace

void Histogram::record(std::chrono::nanoseconds duration) {
  const int64_t ns = std::max<int64_t>(0, duration.count());
  const Bounds& bounds = bounds_ns();
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), ns);
  buckets_[static_cast<size_t>(place - bounds.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (size_t i = 0; i < kBuckets; ++i) total += bucket(i);
  return total;
}

std::chrono::nanoseconds Histogram::quantile(double q) const {
  std::array<uint64_t, kBuckets> counts;
  uint64_t total = 0;
  for (size_t i = 0; i < kBuckets; ++i) total += counts[i] = bucket(i);
  if (total == 0) return std::chrono::nanoseconds(0);
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(total));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, total);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts[i];
    if (seen >= rank) return bound(i);
  }
  return bound(kBuckets - 1);
}

std::chrono::nanoseconds Histogram::bound(size_t i) {
  return std::chrono::nanoseconds(bounds_ns()[std::min(i, kBuckets - 1)]);
}

template <class M>
M& Metrics::find(Table<M>& table, std::string_view name, std::string_view label) {
  std::lock_guard lock(mutex_);
  M*& place = table.by_name[{std::string(name), std::string(label)}];
  if (place == nullptr) place = &table.storage.emplace_back();
  return *place;
}

template <class M>
std::vector<Metrics::Entry<M>> Metrics::list(const Table<M>& table) const {
  std::lock_guard lock(mutex_);
  std::vector<Entry<M>> entries;
  entries.reserve(table.by_name.size());
  for (const auto& [key, metric] : table.by_name) entries.push_back({key.first, key.second, metric});
  return entries;
}

Counter& Metrics::counter(std::string_view name, std::string_view label) { return find(counters_, name, label); }
Gauge& Metrics::gauge(std::string_view name, std::string_view label) { return find(gauges_, name, label); }
Histogram& Metrics::histogram(std::string_view name, std::string_view label) { return find(histograms_, name, label); }

std::vector<Metrics::Entry<Counter>> Metrics::counters() const { return list(counters_); }
std::vector<Metrics::Entry<Gauge>> Metrics::gauges() const { return list(gauges_); }
std::vector<Metrics::Entry<Histogram>> Metrics::histograms() const { return list(histograms_); }

}  // namespace shardfs::base
