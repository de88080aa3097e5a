// NameOrder: the names of one directory in the order in which a person would count them. Names of one extension stand
// together; numbers in them compare as numbers (9 before 10, 099 before 100), whichever of several numbers varies.
// A series is a run of names that differ in their numbers only (train-0 ... train-99); other names of an extension
// stand in one series too, one after the other. Thread rule: thread-compatible. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardfs::readahead {

/// Negative, 0, positive. Runs of digits compare by value, all else as bytes. 0 only for equal texts.
int compare_natural(std::string_view a, std::string_view b);

class NameOrder {
 public:
  NameOrder() = default;
  explicit NameOrder(std::vector<std::string> names);

  uint32_t size() const { return static_cast<uint32_t>(names_.size()); }
  const std::string& name(uint32_t place) const { return names_[place]; }
  std::optional<uint32_t> find(std::string_view name) const;
  /// The place that each of these names has in another order. O(n).
  std::vector<std::optional<uint32_t>> places_in(const NameOrder& other) const;
  /// The first place whose name is not before this one.
  uint32_t lower_bound(std::string_view name) const;
  bool starts_series(uint32_t place) const { return place == 0 || series_[place] != series_[place - 1]; }
  bool same_series(uint32_t a, uint32_t b) const { return series_[a] == series_[b]; }
  /// steps places on (or back) in the same series.
  std::optional<uint32_t> at_distance(uint32_t place, int64_t steps) const;

 private:
  std::vector<std::string> names_;
  std::vector<uint32_t> series_;  // of each name
};

}  // namespace shardfs::readahead
