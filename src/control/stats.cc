#include "control/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "fetch/cause.h"

namespace shardfs::control {
namespace {

using base::Histogram;
using base::Metrics;
using nlohmann::json;

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

// The entries of one registry, read once, so that a snapshot is of one moment as nearly as may be.
struct Registry {
  explicit Registry(const Metrics& metrics)
      : counters(metrics.counters()), gauges(metrics.gauges()), histograms(metrics.histograms()) {}

  uint64_t counter(std::string_view name, std::string_view label = {}) const {
    for (const auto& entry : counters) {
      if (entry.name == name && entry.label == label) return entry.metric->value();
    }
    return 0;
  }
  int64_t gauge(std::string_view name) const {
    for (const auto& entry : gauges) {
      if (entry.name == name && entry.label.empty()) return entry.metric->value();
    }
    return 0;
  }
  // All labels of a counter: {"get": 12, ...}.
  json by_label(std::string_view name) const {
    json object = json::object();
    for (const auto& entry : counters) {
      if (entry.name == name && !entry.label.empty()) object[entry.label] = entry.metric->value();
    }
    return object;
  }
  uint64_t sum(std::string_view name) const {
    uint64_t total = 0;
    for (const auto& entry : counters) {
      if (entry.name == name) total += entry.metric->value();
    }
    return total;
  }

  std::vector<Metrics::Entry<base::Counter>> counters;
  std::vector<Metrics::Entry<base::Gauge>> gauges;
  std::vector<Metrics::Entry<Histogram>> histograms;
};

// Several histograms as one.
json quantiles(const std::vector<const Histogram*>& parts) {
  std::array<uint64_t, Histogram::kBuckets> buckets{};
  std::chrono::nanoseconds sum{0};
  uint64_t count = 0;
  for (const Histogram* part : parts) {
    for (size_t i = 0; i < buckets.size(); ++i) {
      const uint64_t in_bucket = part->bucket(i);
      buckets[i] += in_bucket;
      count += in_bucket;
    }
    sum += part->sum();
  }
  json object = {{"count", count}, {"sum", seconds(sum)}};
  for (const auto& [name, q] : {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}}) {
    const auto rank = static_cast<uint64_t>(std::max(1.0, std::ceil(q * static_cast<double>(count))));
    uint64_t seen = 0;
    double value = 0;
    for (size_t i = 0; i < buckets.size() && count > 0; ++i) {
      seen += buckets[i];
      if (seen >= rank) {
        // The last bucket has no bound: the one before is the best that can be said.
        value = seconds(Histogram::bound(std::min(i, buckets.size() - 2)));
        break;
      }
    }
    object[name] = value;
  }
  return object;
}

json all_of(const Registry& registry, std::string_view name) {
  std::vector<const Histogram*> parts;
  for (const auto& entry : registry.histograms) {
    if (entry.name == name) parts.push_back(entry.metric);
  }
  return quantiles(parts);
}

json each_label(const Registry& registry, std::string_view name) {
  json object = json::object();
  for (const auto& entry : registry.histograms) {
    if (entry.name == name && !entry.label.empty()) object[entry.label] = quantiles({entry.metric});
  }
  return object;
}

template <class E>
std::string full_name(const E& entry) {
  return entry.label.empty() ? entry.name : fmt::format("{}{{{}}}", entry.name, entry.label);
}

json everything(const Registry& registry) {
  json counters = json::object();
  json gauges = json::object();
  json histograms = json::object();
  for (const auto& entry : registry.counters) counters[full_name(entry)] = entry.metric->value();
  for (const auto& entry : registry.gauges) gauges[full_name(entry)] = entry.metric->value();
  for (const auto& entry : registry.histograms) histograms[full_name(entry)] = quantiles({entry.metric});
  return {{"counters", std::move(counters)}, {"gauges", std::move(gauges)}, {"histograms", std::move(histograms)}};
}

// Estimated: reads that the kernel answers by itself are not seen; the object's size at each passthrough open stands
// for them. Null as long as nothing was read.
json hit_ratio(const Registry& registry) {
  const uint64_t read_bytes = registry.counter("fs_read_bytes") + registry.counter("fs_passthrough_open_bytes");
  if (read_bytes == 0) return nullptr;
  const auto fetched = static_cast<double>(registry.counter("fetch_received_bytes", "demand"));
  return std::clamp(1.0 - fetched / static_cast<double>(read_bytes), 0.0, 1.0);
}

// By cause and, in total, what was predicted and not read: not yet, or never.
json wasted(const Registry& registry) {
  json object = json::object();
  uint64_t total = 0;
  for (const fetch::Cause cause : fetch::kAllCauses) {
    if (cause == fetch::Cause::kDemand) continue;
    const uint64_t fetched = registry.counter("fetch_received_bytes", name_of(cause));
    const uint64_t used = std::min(fetched, registry.counter("fetch_used_bytes", name_of(cause)));
    object[std::string(name_of(cause))] = fetched - used;
    total += fetched - used;
  }
  object["total"] = total;
  return object;
}

json stalled(const Registry& registry) {
  json object = json::object();
  for (const auto* reason : {"connection", "memory", "first_byte", "transfer", "other_process"})
    object[reason] = static_cast<double>(registry.counter("fetch_stalled_nanoseconds", reason)) / 1e9;
  return object;
}

json files_of(const MountFacts& facts) {
  json list = json::array();
  for (const auto& file : facts.files) {
    json streams = json::array();
    for (const auto& stream : file.streams)
      streams.push_back({{"begin", stream.begin}, {"next", stream.next}, {"window_end", stream.window_end}});
    list.push_back({{"key", file.key},
                    {"size_bytes", file.size_bytes},
                    {"pattern", file.pattern},
                    {"open_handles", file.open_handles},
                    {"resident_bytes", file.resident_bytes},
                    {"memory_bytes", file.memory_bytes},
                    {"parts", file.parts},
                    {"parked_reads", file.parked_reads},
                    {"streams", std::move(streams)}});
  }
  return list;
}

double mb_per_s(int64_t bytes_per_s) { return static_cast<double>(bytes_per_s) / 1e6; }

}  // namespace

std::string stats_json(const MountFacts& facts, const Metrics& metrics) {
  const Registry registry(metrics);
  json gauges = json::object();
  for (const auto& entry : registry.gauges) gauges[full_name(entry)] = entry.metric->value();
  json fetched = {{"total", registry.sum("fetch_received_bytes")}};
  for (const fetch::Cause cause : fetch::kAllCauses)
    fetched[std::string(name_of(cause))] = registry.counter("fetch_received_bytes", name_of(cause));
  json served = {{"cache", registry.counter("fetch_read_bytes", "cache")}};
  for (const fetch::Cause cause : fetch::kAllCauses)
    served[std::string(name_of(cause))] = registry.counter("fetch_read_bytes", name_of(cause));
  const json result = {
      {"schema", 1},
      {"source", facts.source},
      {"mountpoint", facts.mountpoint},
      {"version", facts.version},
      {"pid", facts.process_id},
      {"uptime_s", facts.uptime_s},
      {"passthrough", facts.passthrough},
      {"passthrough_reason", facts.passthrough_reason},

      {"hit_ratio", hit_ratio(registry)},
      {"hits", registry.counter("fetch_hits")},
      {"hit_bytes", registry.counter("fetch_hit_bytes")},
      {"partial_hits", registry.counter("fetch_partial_hits")},
      {"partial_hit_bytes", registry.counter("fetch_partial_hit_bytes")},
      {"misses", registry.counter("fetch_misses")},
      {"miss_bytes", registry.counter("fetch_miss_bytes")},
      {"fetched_bytes", fetched},
      {"served_bytes", served},
      {"wasted_bytes", wasted(registry)},
      {"bypassed_bytes", registry.counter("fetch_bypassed_bytes")},
      {"read_bytes", registry.counter("fs_read_bytes")},

      {"cache_used_bytes", registry.gauge("cache_used_bytes")},
      {"cache_limit_bytes", registry.gauge("cache_limit_bytes")},
      {"cache_reserved_bytes", registry.gauge("cache_reserved_bytes")},
      {"cache_written_bytes", registry.counter("cache_written_bytes")},
      {"evictions", registry.counter("cache_evicted_files")},
      {"evicted_bytes", registry.counter("cache_evicted_bytes")},
      {"bad_blocks", registry.counter("cache_bad_blocks")},
      {"checked_bytes", registry.counter("cache_checked_bytes")},
      {"refused_blocks", registry.sum("cache_refused_blocks")},
      {"cache_write_errors", registry.sum("cache_write_errors")},

      {"open_files", registry.gauge("fs_open_files")},
      {"passthrough_opens", registry.counter("fs_opens", "passthrough")},
      {"passthrough_open_bytes", registry.counter("fs_passthrough_open_bytes")},
      {"daemon_opens", registry.counter("fs_opens", "daemon")},
      {"backing_ids", registry.gauge("fs_backing_ids")},
      {"operations", registry.by_label("fs_operations")},
      {"operation_errors", registry.by_label("fs_errors")},

      {"requests", registry.by_label("store_requests")},
      {"retries", registry.sum("store_retries")},
      {"refused_requests", registry.sum("store_requests_refused")},
      {"errors", registry.by_label("store_errors")},
      {"received_bytes", registry.sum("store_received_bytes")},
      {"connections_active", registry.gauge("store_connections_active")},
      {"connections_limit", registry.gauge("store_connections_limit")},
      {"requests_waiting", registry.gauge("store_requests_waiting")},

      {"first_byte_seconds", each_label(registry, "store_first_byte_seconds")},
      {"read_seconds", all_of(registry, "fs_read_seconds")},
      {"stall_seconds", all_of(registry, "fetch_stall_seconds")},
      {"stalled_by_seconds", stalled(registry)},
      {"preempted_parts", registry.counter("fetch_preempted_parts")},
      {"hedged_parts", registry.counter("fetch_hedged_parts")},
      {"hedges_won", registry.counter("fetch_hedges_won")},
      {"throughput_mb_per_s", mb_per_s(registry.gauge("throughput_fetched_bytes_per_s"))},
      {"read_mb_per_s", mb_per_s(registry.gauge("throughput_read_bytes_per_s"))},

      {"parked_reads", registry.gauge("fetch_parked_reads")},
      {"parked_operations", registry.gauge("fs_parked_operations")},
      {"memory_used_bytes", registry.gauge("fetch_memory_bytes")},
      {"memory_limit_bytes", registry.gauge("fetch_memory_limit_bytes")},
      {"nodes", registry.gauge("tree_nodes")},
      {"stale_answers", registry.sum("tree_stale_answers")},

      {"files", files_of(facts)},
      {"gauges", std::move(gauges)},
      {"metrics", everything(registry)},
  };
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace shardfs::control
