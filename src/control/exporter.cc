#include "control/exporter.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "control/exported_table.h"

namespace shardfs::control {
namespace {

using base::Code;
using base::fail;
using base::Histogram;
using base::Result;
using Families = std::vector<prometheus::MetricFamily>;
using Labels = std::vector<prometheus::ClientMetric::Label>;

// Of the registry's 124 buckets each fourth between 64 us and 67 s: powers of two. Source: quantiles within a factor of
// two are enough for a graph, and each bucket is a series for each mount of a cluster.
constexpr size_t kFirstBucket = 24;
constexpr size_t kLastBucket = 104;
constexpr size_t kBucketStep = 4;

Labels base_labels(const ExportLabels& labels) {
  Labels result = {{"mountpoint", labels.mountpoint}, {"source", labels.source}};
  for (const auto& [name, value] : labels.more) result.push_back({name, value});
  return result;
}

prometheus::ClientMetric::Histogram histogram_of(const Histogram& from) {
  prometheus::ClientMetric::Histogram result;
  uint64_t below = 0;
  size_t next = kFirstBucket;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += from.bucket(i);
    if (i != next || next > kLastBucket) continue;
    result.bucket.push_back({below, std::chrono::duration<double>(Histogram::bound(i)).count()});
    next += kBucketStep;
  }
  result.bucket.push_back({below, std::numeric_limits<double>::infinity()});
  result.sample_count = below;
  result.sample_sum = std::chrono::duration<double>(from.sum()).count();
  return result;
}

class Builder {
 public:
  Builder(const ExportFacts& facts, const base::Metrics& metrics)
      : labels_(base_labels(facts.labels)),
        counters_(metrics.counters()),
        gauges_(metrics.gauges()),
        histograms_(metrics.histograms()) {
    auto& info = family("info", "Version of shardfs; the value is always 1", prometheus::MetricType::Gauge);
    info.metric.push_back(sample("version", facts.version));
    info.metric.back().gauge.value = 1;
    plain("uptime_seconds", "Time since the mount began", facts.uptime_s);
    plain("passthrough", "1 if the kernel reads complete cache files by itself", facts.passthrough ? 1 : 0);
    for (const ExportedMetric& row : exported_table()) add(row);
  }
  Families take() { return std::move(families_); }

 private:
  prometheus::MetricFamily& family(const std::string& name, const std::string& help, prometheus::MetricType type) {
    const std::string full = "shardfs_" + name;
    const auto found =
        std::find_if(families_.begin(), families_.end(), [&](const auto& each) { return each.name == full; });
    if (found != families_.end()) return *found;
    families_.push_back({full, help, type, {}});
    return families_.back();
  }
  prometheus::ClientMetric sample(const std::string& label, const std::string& value) const {
    prometheus::ClientMetric result;
    result.label = labels_;
    if (!label.empty()) result.label.push_back({label, value});
    return result;
  }
  void plain(const std::string& name, const std::string& help, double value) {
    auto& place = family(name, help, prometheus::MetricType::Gauge);
    place.metric.push_back(sample("", ""));
    place.metric.back().gauge.value = value;
  }
  // of_registry: a label of the registry, or the row's own.
  static std::string label_value(const ExportedMetric& row, const std::string& of_registry) {
    return row.fixed_label.empty() ? of_registry : std::string(row.fixed_label);
  }
  template <class Entries, class Set>
  void each(const ExportedMetric& row, prometheus::MetricType type, const Entries& entries, Set set) {
    auto& place = family(std::string(row.exported), std::string(row.help), type);
    bool any = false;
    for (const auto& entry : entries) {
      if (entry.name != row.name) continue;
      any = true;
      place.metric.push_back(sample(std::string(row.label), label_value(row, entry.label)));
      set(place.metric.back(), entry);
    }
    // What was not counted yet is zero, if it is known how it is called.
    if (!any && (row.label.empty() || !row.fixed_label.empty()) && type != prometheus::MetricType::Histogram)
      place.metric.push_back(sample(std::string(row.label), std::string(row.fixed_label)));
  }
  void add(const ExportedMetric& row) {
    switch (row.kind) {
      case ExportedMetric::Kind::kCounter:
        return each(row, prometheus::MetricType::Counter, counters_, [&](auto& place, const auto& entry) {
          place.counter.value = static_cast<double>(entry.metric->value()) * row.scale;
        });
      case ExportedMetric::Kind::kGauge:
        return each(row, prometheus::MetricType::Gauge, gauges_, [](auto& place, const auto& entry) {
          place.gauge.value = static_cast<double>(entry.metric->value());
        });
      case ExportedMetric::Kind::kHistogram:
        return each(row, prometheus::MetricType::Histogram, histograms_,
                    [](auto& place, const auto& entry) { place.histogram = histogram_of(*entry.metric); });
    }
  }

  const Labels labels_;
  const std::vector<base::Metrics::Entry<base::Counter>> counters_;
  const std::vector<base::Metrics::Entry<base::Gauge>> gauges_;
  const std::vector<base::Metrics::Entry<Histogram>> histograms_;
  Families families_;
};

class Collector final : public prometheus::Collectable {
 public:
  Collector(std::function<ExportFacts()> refresh, const base::Metrics& metrics)
      : refresh_(std::move(refresh)), metrics_(metrics) {}
  Families Collect() const override { return Builder(refresh_(), metrics_).take(); }

 private:
  const std::function<ExportFacts()> refresh_;
  const base::Metrics& metrics_;
};

class ExposerListener final : public MetricsListener {
 public:
  ExposerListener(const std::string& address, std::shared_ptr<Collector> collector)
      : collector_(std::move(collector)), exposer_(address) {
    exposer_.RegisterCollectable(collector_);
  }

 private:
  const std::shared_ptr<Collector> collector_;
  prometheus::Exposer exposer_;  // last: its threads end first
};

bool is_label_name(const std::string& name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string::npos && (name[0] < '0' || name[0] > '9') &&
         !name.starts_with("__");
}

}  // namespace

Result<std::map<std::string, std::string>> parse_labels(const std::string& text) {
  std::map<std::string, std::string> labels;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string pair = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals);
    const auto table = exported_table();
    const bool taken = name == "mountpoint" || name == "source" || name == "version" || name == "le" ||
                       std::any_of(table.begin(), table.end(), [&](const auto& row) { return row.label == name; });
    if (equals == std::string::npos || !is_label_name(name) || taken || labels.count(name) != 0) {
      return fail(Code::kInvalid, fmt::format("\"{}\" is not a label such as slurm_job=7{}", pair,
                                              taken ? ": that name is taken" : ""));
    }
    labels[name] = pair.substr(equals + 1);
  }
  return labels;
}

std::vector<std::string> exported_metrics() {
  std::vector<std::string> names;
  const base::Metrics none;
  for (const auto& family : Builder({}, none).take()) names.push_back(family.name);
  return names;
}

std::string prometheus_text(const ExportFacts& facts, const base::Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(Builder(facts, metrics).take());
}

Result<std::unique_ptr<MetricsListener>> MetricsListener::listen(const std::string& address,
                                                                 std::function<ExportFacts()> refresh,
                                                                 const base::Metrics& metrics) {
  const bool port_only = address.find_first_not_of("0123456789") == std::string::npos;
  try {
    auto collector = std::make_shared<Collector>(std::move(refresh), metrics);
    return std::make_unique<ExposerListener>(port_only ? "127.0.0.1:" + address : address, std::move(collector));
  } catch (const std::exception& error) {
    return fail(Code::kIo, fmt::format("listen on {} for metrics: {}", address, error.what()));
  }
}

}  // namespace shardfs::control
