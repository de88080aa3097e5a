#include "control/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace shardfs::control {
namespace {

using nlohmann::json;

uint64_t count(const json& object, const char* key) {
  const auto place = object.is_object() ? object.find(key) : object.end();
  if (place == object.end() || !place->is_number()) return 0;
  return static_cast<uint64_t>(std::max(0.0, place->get<double>()));
}

json part(const json& object, const char* key) {
  const auto place = object.find(key);
  return place != object.end() && place->is_object() ? *place : json::object();
}

uint64_t sum(const json& counts) {
  uint64_t total = 0;
  for (const auto& [label, value] : counts.items()) total += count(counts, label.c_str());
  return total;
}

uint64_t grown(uint64_t from, uint64_t to) { return to - std::min(from, to); }

std::string rate(uint64_t bytes, double seconds) {
  return seconds > 0 ? fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6 / seconds) : "-";
}

std::string line_of(const TopSample* before, const TopSample& now, double seconds) {
  const TopSample& from = before == nullptr ? now : *before;
  const uint64_t read = grown(from.read_bytes, now.read_bytes) + grown(from.passthrough_bytes, now.passthrough_bytes);
  const uint64_t demand = std::min(read, grown(from.demand_bytes, now.demand_bytes));
  const std::string hit =
      read == 0 ? "-" : fmt::format("{:.0f}", 100.0 * (1 - static_cast<double>(demand) / static_cast<double>(read)));
  const std::string cache = now.cache_limit_bytes == 0
                                ? "off"
                                : fmt::format("{} of {}", base::format_bytes(now.cache_used_bytes),
                                              base::format_bytes(now.cache_limit_bytes));
  return fmt::format("{:<24} {:>9} {:>9} {:>9} {:>5} {:>6} {:>6} {:>5} {:>6} {:>7} {:>6}  {:<22} {}", now.mountpoint,
                     rate(grown(from.read_bytes, now.read_bytes), seconds),
                     rate(grown(from.passthrough_bytes, now.passthrough_bytes), seconds),
                     rate(grown(from.fetched_bytes, now.fetched_bytes), seconds), hit,
                     seconds > 0 ? fmt::format("{:.1f}", std::max(0.0, now.stalled_s - from.stalled_s) / seconds) : "-",
                     now.parked_reads, now.parts, now.open_files, now.streams, now.errors, cache, now.source);
}

}  // namespace

std::optional<TopSample> top_sample(const std::string& text) {
  const json stats = json::parse(text, nullptr, false);
  if (!stats.is_object() || !stats.contains("mountpoint") || !stats["mountpoint"].is_string()) return std::nullopt;
  TopSample sample;
  sample.mountpoint = stats["mountpoint"];
  sample.source = stats.value("source", "");
  sample.process_id = static_cast<int>(count(stats, "pid"));
  sample.read_bytes = count(stats, "read_bytes");
  sample.passthrough_bytes = count(stats, "passthrough_open_bytes");
  const json fetched = part(stats, "fetched_bytes");
  sample.fetched_bytes = count(fetched, "total");
  sample.demand_bytes = count(fetched, "demand");
  const json stall = part(stats, "stall_seconds");
  if (stall.contains("sum") && stall["sum"].is_number()) sample.stalled_s = stall["sum"];
  sample.parked_reads = count(stats, "parked_reads");
  sample.parts = count(part(stats, "gauges"), "fetch_parts");
  sample.open_files = count(stats, "open_files");
  if (stats.contains("files") && stats["files"].is_array()) {
    for (const json& file : stats["files"]) {
      if (file.contains("streams") && file["streams"].is_array()) sample.streams += file["streams"].size();
    }
  }
  sample.cache_used_bytes = count(stats, "cache_used_bytes");
  sample.cache_limit_bytes = count(stats, "cache_limit_bytes");
  const json refused = part(stats, "operation_errors");
  sample.errors = sum(part(stats, "errors"));
  for (const char* errno_name : {"EIO", "ETIMEDOUT", "ESTALE", "EACCES"}) sample.errors += count(refused, errno_name);
  return sample;
}

std::string top_table(const std::vector<TopSample>& before, const std::vector<TopSample>& now, double seconds,
                      size_t width) {
  std::vector<std::string> lines = {fmt::format(
      "{:<24} {:>9} {:>9} {:>9} {:>5} {:>6} {:>6} {:>5} {:>6} {:>7} {:>6}  {:<22} {}", "MOUNTPOINT", "READ MB/s",
      "PASS MB/s", "STORE MB/s", "HIT %", "STALL", "PARKED", "PARTS", "FILES", "STREAMS", "ERRORS", "CACHE", "SOURCE")};
  for (const TopSample& each : now) {
    const auto last = std::find_if(before.begin(), before.end(), [&](const TopSample& other) {
      return other.mountpoint == each.mountpoint && other.process_id == each.process_id;
    });
    lines.push_back(line_of(last == before.end() ? nullptr : &*last, each, last == before.end() ? 0 : seconds));
  }
  std::string text;
  for (auto& line : lines) {
    if (width > 0 && line.size() > width) line.resize(width);
    text += line + "\n";
  }
  return text;
}

}  // namespace shardfs::control
