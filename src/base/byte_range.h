// ByteRange: a half-open run of bytes [begin, end).
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardfs::base {

struct ByteRange {
  uint64_t begin = 0;  // bytes
  uint64_t end = 0;    // bytes, exclusive

  uint64_t size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return end <= begin; }
  bool contains(const ByteRange& other) const { return begin <= other.begin && other.end <= end; }
  bool contains(uint64_t offset) const { return begin <= offset && offset < end; }
  ByteRange intersect(const ByteRange& other) const {
    const uint64_t first = std::max(begin, other.begin);
    return {first, std::max(first, std::min(end, other.end))};
  }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

constexpr uint64_t align_down(uint64_t value, uint64_t unit) { return value / unit * unit; }
constexpr uint64_t align_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace shardfs::base
