#include "app/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shardfs/version.h"

namespace shardfs::app {
namespace {

using nlohmann::json;

json epoch_json(const EpochResult& epoch) {
  return {{"samples", epoch.samples},
          {"bytes", epoch.bytes},
          {"samples_per_s", epoch.samples_per_s()},
          {"mb_per_s", epoch.mb_per_s()},
          {"wall_s", epoch.wall_s},
          {"time_to_first_batch_s", epoch.time_to_first_batch_s},
          {"mean_input_wait_s", epoch.mean_input_wait_s},
          {"input_wait_fraction", epoch.input_wait_fraction},
          {"gets", epoch.gets},
          {"fetched_bytes", epoch.fetched_bytes},
          {"hit_ratio", epoch.hit_ratio()}};
}

}  // namespace

double EpochResult::hit_ratio() const {
  if (bytes == 0) return 0;
  return std::max(0.0, 1.0 - static_cast<double>(fetched_bytes) / static_cast<double>(bytes));
}

base::Result<EpochResult> parse_epoch(const std::string& text, const std::string& origin) {
  const json list = json::parse(text, nullptr, false);
  const json epoch = list.is_array() && !list.empty() ? list.front() : json();
  EpochResult result;
  const auto number = [&epoch](const char* name) {
    const auto place = epoch.find(name);
    return place != epoch.end() && place->is_number() ? std::max(0.0, place->get<double>()) : -1.0;
  };
  if (!epoch.is_object()) return base::fail(base::Code::kInvalid, origin + " is not a list of epochs");
  for (const char* name :
       {"samples", "bytes", "wall_s", "time_to_first_batch_s", "mean_input_wait_s", "input_wait_fraction"}) {
    if (number(name) < 0) return base::fail(base::Code::kInvalid, fmt::format("{} has no number \"{}\"", origin, name));
  }
  result.samples = static_cast<uint64_t>(number("samples"));
  result.bytes = static_cast<uint64_t>(number("bytes"));
  result.wall_s = number("wall_s");
  result.time_to_first_batch_s = number("time_to_first_batch_s");
  result.mean_input_wait_s = number("mean_input_wait_s");
  result.input_wait_fraction = number("input_wait_fraction");
  return result;
}

std::string demo_table(const DemoResult& result) {
  std::string table =
      fmt::format("{:<22} {:>9} {:>7} {:>7} {:>11} {:>12} {:>11} {:>5} {:>11} {:>9}\n", "", "samples/s", "MB/s",
                  "time s", "1st batch s", "mean wait ms", "input wait", "GETs", "fetched MB", "hit ratio");
  const auto row = [&table](std::string_view name, const EpochResult& epoch) {
    fmt::format_to(std::back_inserter(table),
                   "{:<22} {:>9.0f} {:>7.0f} {:>7.2f} {:>11.3f} {:>12.1f} {:>9.1f} % {:>5} {:>11.1f} {:>9.3f}\n", name,
                   epoch.samples_per_s(), epoch.mb_per_s(), epoch.wall_s, epoch.time_to_first_batch_s,
                   1e3 * epoch.mean_input_wait_s, 100 * epoch.input_wait_fraction, epoch.gets,
                   static_cast<double>(epoch.fetched_bytes) / 1e6, epoch.hit_ratio());
  };
  row("cold (from the store)", result.cold);
  row("warm (from the cache)", result.warm);
  row("local copy", result.local);
  if (result.reader == "webdataset") {
    table +=
        "Two DataLoader workers touch every byte (CRC-32) of each sample but do not decode it, which would take most "
        "of\n"
        "the time; the training step takes none, so that nearly all time is input wait.\n";
  } else {
    table += "Two threads read whole shards in pieces of 1 MiB, eight to a batch; reader: " + result.reader + "\n";
  }
  return table;
}

std::string demo_json(const DemoResult& result) {
  const json all = {{"version", version()},
                    {"reader", result.reader},
                    {"size_bytes", result.size_bytes},
                    {"shards", result.shards},
                    {"passthrough", result.passthrough},
                    {"passthrough_reason", result.passthrough_reason},
                    {"cold", epoch_json(result.cold)},
                    {"warm", epoch_json(result.warm)},
                    {"local", epoch_json(result.local)}};
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace shardfs::app
