#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "control/stats.h"

namespace shardfs::control {
namespace {

using nlohmann::json;

constexpr size_t kFilesShown = 8;

// Absent or of another type counts as zero: a newer mount may have dropped a field.
double number(const json& object, std::string_view key) {
  const auto place = object.is_object() ? object.find(key) : object.end();
  return place != object.end() && place->is_number() ? place->get<double>() : 0;
}

uint64_t count(const json& object, std::string_view key) {
  const double value = number(object, key);
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

std::string text(const json& object, std::string_view key) {
  const auto place = object.find(key);
  return place != object.end() && place->is_string() ? place->get<std::string>() : std::string();
}

json part(const json& object, std::string_view key) {
  const auto place = object.find(key);
  return place != object.end() && place->is_object() ? *place : json::object();
}

std::string bytes(const json& object, std::string_view key) { return base::format_bytes(count(object, key)); }

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string uptime(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string quantiles(const json& histogram) {
  if (count(histogram, "count") == 0) return "-";
  return fmt::format("p50 {}, p90 {}, p99 {} ({} times)", duration(number(histogram, "p50")),
                     duration(number(histogram, "p90")), duration(number(histogram, "p99")), count(histogram, "count"));
}

// "demand 12 MiB, readahead 1 GiB"
std::string sizes(const json& object) {
  std::string result;
  for (const auto& [label, value] : object.items()) {
    if (label == "total" || !value.is_number() || value.get<double>() <= 0) continue;
    result += fmt::format("{}{} {}", result.empty() ? "" : ", ", label, base::format_bytes(count(object, label)));
  }
  return result.empty() ? "nothing" : result;
}

// "connection 1.2 s, transfer 3.1 ms"
std::string durations(const json& object) {
  std::string result;
  for (const auto& [label, value] : object.items()) {
    if (!value.is_number() || value.get<double>() <= 0) continue;
    result += fmt::format("{}{} {}", result.empty() ? "" : ", ", label, duration(value.get<double>()));
  }
  return result.empty() ? "nothing" : result;
}

// "get 12, list 1"
std::string labels(const json& object) {
  std::string result;
  for (const auto& [label, value] : object.items()) {
    if (value.is_number()) result += fmt::format("{}{} {}", result.empty() ? "" : ", ", label, value.get<uint64_t>());
  }
  return result.empty() ? "none" : result;
}

class Table {
 public:
  void row(std::string_view name, const std::string& value) {
    fmt::format_to(std::back_inserter(text_), "  {:<16} {}\n", name, value);
  }
  void head(const std::string& line) { text_ += line + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void show_reads(Table& table, const json& stats) {
  const auto ratio = stats.find("hit_ratio");
  table.row("hit ratio", ratio != stats.end() && ratio->is_number()
                             ? fmt::format("{:.3f} (estimated)", ratio->get<double>())
                             : std::string("- (nothing read yet)"));
  table.row("hits", fmt::format("{} ({})", count(stats, "hits"), bytes(stats, "hit_bytes")));
  table.row("partial hits", fmt::format("{} ({})", count(stats, "partial_hits"), bytes(stats, "partial_hit_bytes")));
  table.row("misses", fmt::format("{} ({})", count(stats, "misses"), bytes(stats, "miss_bytes")));
  const json fetched = part(stats, "fetched_bytes");
  table.row("fetched", fmt::format("{} ({})", bytes(fetched, "total"), sizes(fetched)));
  table.row("served from", sizes(part(stats, "served_bytes")));
  const json wasted = part(stats, "wasted_bytes");
  table.row("ahead, not read", fmt::format("{} ({})", bytes(wasted, "total"), sizes(wasted)));
  table.row("now", fmt::format("{:.1f} MB/s from the store, {:.1f} MB/s to readers",
                               number(stats, "throughput_mb_per_s"), number(stats, "read_mb_per_s")));
  table.row("read latency", quantiles(part(stats, "read_seconds")));
  const json stall = part(stats, "stall_seconds");
  table.row("parked", fmt::format("{} reads now; stalled {} in all", count(stats, "parked_reads"),
                                  duration(number(stall, "sum"))));
  table.row("stalled by", durations(part(stats, "stalled_by_seconds")));
}

void show_store(Table& table, const json& stats) {
  table.row("requests", labels(part(stats, "requests")));
  table.row("first byte", quantiles(part(part(stats, "first_byte_seconds"), "get")));
  table.row("late parts",
            fmt::format("{} asked for twice, {} of them won; {} gave way to demand", count(stats, "hedged_parts"),
                        count(stats, "hedges_won"), count(stats, "preempted_parts")));
  table.row("retries", fmt::format("{}", count(stats, "retries")));
  table.row("errors", labels(part(stats, "errors")));
  table.row("connections", fmt::format("{} active of {}, {} requests waiting", count(stats, "connections_active"),
                                       count(stats, "connections_limit"), count(stats, "requests_waiting")));
}

void show_cache(Table& table, const json& stats) {
  const uint64_t limit = count(stats, "cache_limit_bytes");
  table.row("cache", limit == 0 ? std::string("off")
                                : fmt::format("{} of {} ({:.1f} %)", bytes(stats, "cache_used_bytes"),
                                              bytes(stats, "cache_limit_bytes"),
                                              100.0 * number(stats, "cache_used_bytes") / static_cast<double>(limit)));
  table.row("evictions", fmt::format("{} files ({})", count(stats, "evictions"), bytes(stats, "evicted_bytes")));
  if (count(stats, "bad_blocks") > 0) table.row("bad blocks", fmt::format("{}", count(stats, "bad_blocks")));
  if (count(stats, "cache_write_errors") > 0) {
    table.row("cache errors", fmt::format("{}", count(stats, "cache_write_errors")));
  }
}

void show_files(Table& table, const json& stats) {
  table.row("open files", fmt::format("{}", count(stats, "open_files")));
  table.row("opens", fmt::format("{} passthrough, {} through the daemon", count(stats, "passthrough_opens"),
                                 count(stats, "daemon_opens")));
  const json refused = part(stats, "operation_errors");
  if (!refused.empty()) table.row("failed calls", labels(refused));
  table.row("memory", fmt::format("{} of {}", bytes(stats, "memory_used_bytes"), bytes(stats, "memory_limit_bytes")));
  const auto files = stats.find("files");
  if (files == stats.end() || !files->is_array()) return;
  size_t shown = 0;
  for (const json& file : *files) {
    if (++shown > kFilesShown) break;
    table.row(shown == 1 ? "in use" : "",
              fmt::format("{}: {}, {} of {}, {} parts under way, {} reads parked", text(file, "key"),
                          text(file, "pattern"), bytes(file, "resident_bytes"), bytes(file, "size_bytes"),
                          count(file, "parts"), count(file, "parked_reads")));
  }
}

}  // namespace

base::Result<std::string> stats_text(const std::string& json_text) {
  const json stats = json::parse(json_text, nullptr, false);
  if (!stats.is_object() || text(stats, "mountpoint").empty()) {
    return base::fail(base::Code::kInvalid, "the answer is not the stats of a mount");
  }
  Table table;
  table.head(fmt::format("{} on {}", text(stats, "source"), text(stats, "mountpoint")));
  table.row("up", fmt::format("{} (process {}, shardfs {})", uptime(number(stats, "uptime_s")), count(stats, "pid"),
                              text(stats, "version")));
  const auto passthrough = stats.find("passthrough");
  const bool on = passthrough != stats.end() && passthrough->is_boolean() && passthrough->get<bool>();
  table.row("passthrough", on ? std::string("on") : fmt::format("off: {}", text(stats, "passthrough_reason")));
  show_cache(table, stats);
  show_reads(table, stats);
  show_files(table, stats);
  show_store(table, stats);
  return table.take();
}

}  // namespace shardfs::control
