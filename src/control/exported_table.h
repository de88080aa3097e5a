// The metrics that are exported, each with what it is called inside. docs/metrics.md has the same table for people.
// Thread rule: a constant.
#pragma once

#include <span>
#include <string_view>

namespace shardfs::control {

struct ExportedMetric {
  enum class Kind { kCounter, kGauge, kHistogram };
  Kind kind;
  std::string_view name;      // in the registry
  std::string_view exported;  // without "shardfs_"
  std::string_view help;
  std::string_view label = {};        // what the registry's label is called; empty: it has none
  std::string_view fixed_label = {};  // its value, where several metrics of the registry are one here
  double scale = 1;
};

/// Rows with the same exported name follow each other.
std::span<const ExportedMetric> exported_table();

}  // namespace shardfs::control
