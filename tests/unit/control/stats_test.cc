#include "control/stats.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "control/sampler.h"

namespace shardfs::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

const MountFacts kFacts = {"s3://bucket/prefix", "/data", "1.2.3", 61.5, false, "no CAP_SYS_ADMIN", 4711, {}};

json snapshot(const base::Metrics& metrics) { return json::parse(stats_json(kFacts, metrics)); }

TEST_CASE("an empty registry gives every field") {
  const base::Metrics metrics;
  const json stats = snapshot(metrics);
  CHECK(stats["source"] == "s3://bucket/prefix");
  CHECK(stats["mountpoint"] == "/data");
  CHECK(stats["pid"] == 4711);
  CHECK(stats["passthrough"] == false);
  CHECK(stats["passthrough_reason"] == "no CAP_SYS_ADMIN");
  CHECK(stats["hit_ratio"].is_null());
  CHECK(stats["fetched_bytes"] ==
        json{{"demand", 0}, {"readahead", 0}, {"small_files", 0}, {"next_shard", 0}, {"warm", 0}, {"total", 0}});
  CHECK(stats["read_seconds"]["count"] == 0);
  CHECK(stats["read_seconds"]["p99"] == 0);
  CHECK(stats["metrics"]["counters"].empty());
}

TEST_CASE("the hit ratio is one less demand bytes over what was read") {
  base::Metrics metrics;
  metrics.counter("fs_read_bytes").add(600);
  metrics.counter("fs_passthrough_open_bytes").add(400);
  metrics.counter("fetch_received_bytes", "demand").add(250);
  metrics.counter("fetch_received_bytes", "readahead").add(10000);  // no reader waited for it
  CHECK(snapshot(metrics)["hit_ratio"].get<double>() == doctest::Approx(0.75));
  // Rounding out to blocks may fetch more than was read: not below zero.
  metrics.counter("fetch_received_bytes", "demand").add(5000);
  CHECK(snapshot(metrics)["hit_ratio"].get<double>() == 0);
}

TEST_CASE("a warm mount whose files the kernel reads has a hit ratio of one") {
  base::Metrics metrics;
  metrics.counter("fs_passthrough_open_bytes").add(1 << 20);
  CHECK(snapshot(metrics)["hit_ratio"] == 1.0);
}

TEST_CASE("counts, labels and gauges are in their fields") {
  base::Metrics metrics;
  metrics.counter("fetch_hits").add(3);
  metrics.counter("fetch_hit_bytes").add(300);
  metrics.counter("fetch_partial_hits").add(2);
  metrics.counter("fetch_partial_hit_bytes").add(200);
  metrics.counter("fetch_misses").add(1);
  metrics.counter("fetch_miss_bytes").add(100);
  metrics.counter("fetch_received_bytes", "demand").add(7);
  metrics.counter("fetch_received_bytes", "readahead").add(8);
  metrics.counter("fetch_received_bytes", "warm").add(9);
  metrics.counter("store_requests", "get").add(5);
  metrics.counter("store_requests", "head").add(6);
  metrics.counter("store_requests", "list").add(7);
  metrics.counter("store_errors", "transient").add(2);
  metrics.counter("store_retries").add(4);
  metrics.counter("cache_evicted_files").add(11);
  metrics.counter("fs_opens", "passthrough").add(12);
  metrics.counter("fs_opens", "daemon").add(13);
  metrics.gauge("cache_used_bytes").set(1000);
  metrics.gauge("cache_limit_bytes").set(4000);
  metrics.gauge("fs_open_files").set(14);
  metrics.gauge("fetch_parked_reads").set(15);
  metrics.gauge("fetch_memory_bytes").set(16);
  metrics.gauge("fetch_memory_limit_bytes").set(17);
  const json stats = snapshot(metrics);
  CHECK(stats["hits"] == 3);
  CHECK(stats["hit_bytes"] == 300);
  CHECK(stats["partial_hits"] == 2);
  CHECK(stats["partial_hit_bytes"] == 200);
  CHECK(stats["misses"] == 1);
  CHECK(stats["miss_bytes"] == 100);
  CHECK(stats["fetched_bytes"] ==
        json{{"demand", 7}, {"readahead", 8}, {"small_files", 0}, {"next_shard", 0}, {"warm", 9}, {"total", 24}});
  CHECK(stats["requests"] == json{{"get", 5}, {"head", 6}, {"list", 7}});
  CHECK(stats["errors"] == json{{"transient", 2}});
  CHECK(stats["retries"] == 4);
  CHECK(stats["evictions"] == 11);
  CHECK(stats["passthrough_opens"] == 12);
  CHECK(stats["daemon_opens"] == 13);
  CHECK(stats["cache_used_bytes"] == 1000);
  CHECK(stats["cache_limit_bytes"] == 4000);
  CHECK(stats["open_files"] == 14);
  CHECK(stats["parked_reads"] == 15);
  CHECK(stats["memory_used_bytes"] == 16);
  CHECK(stats["memory_limit_bytes"] == 17);
}

TEST_CASE("what was served, wasted and waited for, by its reason") {
  base::Metrics metrics;
  json stats = snapshot(metrics);
  CHECK(stats["served_bytes"] ==
        json{{"cache", 0}, {"demand", 0}, {"readahead", 0}, {"small_files", 0}, {"next_shard", 0}, {"warm", 0}});
  CHECK(stats["wasted_bytes"] ==
        json{{"readahead", 0}, {"small_files", 0}, {"next_shard", 0}, {"warm", 0}, {"total", 0}});
  CHECK(stats["stalled_by_seconds"] ==
        json{{"connection", 0.0}, {"memory", 0.0}, {"first_byte", 0.0}, {"transfer", 0.0}, {"other_process", 0.0}});
  CHECK(stats["files"] == json::array());
  metrics.counter("fetch_read_bytes", "next_shard").add(1 << 20);
  metrics.counter("fetch_received_bytes", "readahead").add(10 << 20);
  metrics.counter("fetch_used_bytes", "readahead").add(9 << 20);
  metrics.counter("fetch_received_bytes", "warm").add(4 << 20);
  metrics.counter("fetch_used_bytes", "small_files").add(1);  // counted a moment before the other
  metrics.counter("fetch_stalled_nanoseconds", "first_byte").add(1'500'000'000);
  metrics.counter("fetch_hedged_parts").add(3);
  metrics.counter("fetch_hedges_won").add(2);
  metrics.counter("fetch_preempted_parts").add(1);
  MountFacts facts = kFacts;
  facts.files.push_back({"train/00.tar", 8 << 20, "whole", 1, 2 << 20, 1 << 20, 4, 0, {{0, 1 << 20, 3 << 20}}});
  const auto made = stats_json(facts, metrics);
  stats = json::parse(made);
  CHECK(stats["served_bytes"]["next_shard"] == 1 << 20);
  CHECK(stats["wasted_bytes"]["readahead"] == 1 << 20);
  CHECK(stats["wasted_bytes"]["small_files"] == 0);
  CHECK(stats["wasted_bytes"]["total"] == 5 << 20);
  CHECK(stats["stalled_by_seconds"]["first_byte"] == 1.5);
  CHECK(stats["hedged_parts"] == 3);
  CHECK(stats["hedges_won"] == 2);
  CHECK(stats["preempted_parts"] == 1);
  CHECK(stats["files"][0] == json{{"key", "train/00.tar"},
                                  {"size_bytes", 8 << 20},
                                  {"pattern", "whole"},
                                  {"open_handles", 1},
                                  {"resident_bytes", 2 << 20},
                                  {"memory_bytes", 1 << 20},
                                  {"parts", 4},
                                  {"parked_reads", 0},
                                  {"streams", {{{"begin", 0}, {"next", 1 << 20}, {"window_end", 3 << 20}}}}});
  const auto text = stats_text(made);
  REQUIRE(text.has_value());
  for (const char* shown : {"next_shard 1 MiB", "5 MiB (readahead 1 MiB, warm 4 MiB)", "first_byte 1.5 s",
                            "3 asked for twice, 2 of them won; 1 gave way to demand",
                            "train/00.tar: whole, 2 MiB of 8 MiB, 4 parts under way, 0 reads parked"})
    CHECK(text->find(shown) != std::string::npos);
}

TEST_CASE("quantiles are upper bounds, over all labels where a field has none") {
  base::Metrics metrics;
  for (int i = 0; i < 98; ++i) metrics.histogram("fs_read_seconds").record(milliseconds(1));
  metrics.histogram("fs_read_seconds", "hit").record(milliseconds(100));
  metrics.histogram("fs_read_seconds", "hit").record(milliseconds(100));
  metrics.histogram("store_first_byte_seconds", "get").record(milliseconds(30));
  metrics.histogram("store_first_byte_seconds", "list").record(milliseconds(50));
  metrics.histogram("fetch_stall_seconds").record(seconds(2));
  const json stats = snapshot(metrics);
  CHECK(stats["read_seconds"]["count"] == 100);
  for (const char* name : {"p50", "p90"}) {
    const double value = stats["read_seconds"][name];
    CHECK(value >= 0.001);
    CHECK(value < 0.0013);
  }
  CHECK(stats["read_seconds"]["p99"].get<double>() >= 0.1);
  CHECK(stats["first_byte_seconds"]["get"]["count"] == 1);
  CHECK(stats["first_byte_seconds"]["get"]["p50"].get<double>() >= 0.03);
  CHECK(stats["first_byte_seconds"]["list"]["p50"].get<double>() >= 0.05);
  CHECK(stats["stall_seconds"]["sum"].get<double>() == doctest::Approx(2));
}

TEST_CASE("a metric that no field names is in the dump") {
  base::Metrics metrics;
  metrics.counter("new_things", "red").add(2);
  metrics.gauge("new_level").set(-3);
  metrics.histogram("new_seconds").record(seconds(1));
  const json stats = snapshot(metrics);
  CHECK(stats["metrics"]["counters"]["new_things{red}"] == 2);
  CHECK(stats["metrics"]["gauges"]["new_level"] == -3);
  CHECK(stats["gauges"]["new_level"] == -3);
  CHECK(stats["metrics"]["histograms"]["new_seconds"]["count"] == 1);
}

TEST_CASE("text for people names what counts") {
  base::Metrics metrics;
  metrics.gauge("cache_used_bytes").set(1 << 20);
  metrics.gauge("cache_limit_bytes").set(4 << 20);
  metrics.counter("store_requests", "get").add(5);
  metrics.counter("fs_read_bytes").add(100);
  const auto text = stats_text(stats_json(kFacts, metrics));
  REQUIRE(text.has_value());
  CHECK(text->find("s3://bucket/prefix on /data\n") == 0);
  CHECK(text->find("1 min 1 s (process 4711, shardfs 1.2.3)") != std::string::npos);
  CHECK(text->find("off: no CAP_SYS_ADMIN") != std::string::npos);
  CHECK(text->find("1 MiB of 4 MiB (25.0 %)") != std::string::npos);
  CHECK(text->find("1.000 (estimated)") != std::string::npos);
  CHECK(text->find("get 5") != std::string::npos);
}

TEST_CASE("text of something else is an error, of an older mount's stats not") {
  CHECK_FALSE(stats_text("nonsense").has_value());
  CHECK_FALSE(stats_text("[]").has_value());
  CHECK_FALSE(stats_text("{}").has_value());
  CHECK(stats_text(R"({"mountpoint": "/data", "requests": 3, "hits": "many", "uptime_s": -1})").has_value());
}

TEST_CASE("the throughput is that of the last seconds, and zero after the end") {
  base::Metrics metrics;
  base::ManualClock clock;
  {
    ThroughputSampler sampler(metrics, clock);
    const auto second = [&](uint64_t fetched, uint64_t read) {
      metrics.counter("store_received_bytes").add(fetched);
      metrics.counter("fs_read_bytes").add(read);
      clock.advance(seconds(1));
      sampler.sample();
    };
    second(10'000'000, 20'000'000);
    CHECK(snapshot(metrics)["throughput_mb_per_s"] == 10);
    CHECK(snapshot(metrics)["read_mb_per_s"] == 20);
    for (int i = 0; i < 5; ++i) second(30'000'000, 0);
    CHECK(snapshot(metrics)["throughput_mb_per_s"] == 30);
    CHECK(snapshot(metrics)["read_mb_per_s"] == 0);
  }
  CHECK(snapshot(metrics)["throughput_mb_per_s"] == 0);
}

}  // namespace
}  // namespace shardfs::control
