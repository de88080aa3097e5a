// RangeSet: a set of bytes of one object, as few sorted ranges. Not sized by the object: it grows with what was added.
// Thread rule: thread-compatible.
#pragma once

#include <cstddef>
#include <vector>

#include "base/byte_range.h"

namespace shardfs::readahead {

class RangeSet {
 public:
  void add(base::ByteRange range);
  void remove(base::ByteRange range);
  void clear() { ranges_.clear(); }
  bool contains(const base::ByteRange& range) const;
  bool overlaps(const base::ByteRange& range) const;
  /// What of `range` is not in the set, in order.
  std::vector<base::ByteRange> missing_in(base::ByteRange range) const;

 private:
  size_t first_ending_after(uint64_t offset) const;

  std::vector<base::ByteRange> ranges_;  // sorted, disjoint, not touching
};

}  // namespace shardfs::readahead
