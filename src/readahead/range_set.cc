#include "readahead/range_set.h"

namespace shardfs::readahead {

size_t RangeSet::first_ending_after(uint64_t offset) const {
  const auto found = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                      [](uint64_t at, const base::ByteRange& range) { return at < range.end; });
  return static_cast<size_t>(found - ranges_.begin());
}

void RangeSet::add(base::ByteRange range) {
  if (range.empty()) return;
  const size_t first = range.begin > 0 ? first_ending_after(range.begin - 1) : 0;
  size_t last = first;
  for (; last < ranges_.size() && ranges_[last].begin <= range.end; ++last) {
    range.begin = std::min(range.begin, ranges_[last].begin);
    range.end = std::max(range.end, ranges_[last].end);
  }
  ranges_.erase(ranges_.begin() + first, ranges_.begin() + last);
  ranges_.insert(ranges_.begin() + first, range);
}

void RangeSet::remove(base::ByteRange range) {
  if (range.empty()) return;
  const size_t first = first_ending_after(range.begin);
  std::vector<base::ByteRange> kept;
  size_t last = first;
  for (; last < ranges_.size() && ranges_[last].begin < range.end; ++last) {
    if (ranges_[last].begin < range.begin) kept.push_back({ranges_[last].begin, range.begin});
    if (ranges_[last].end > range.end) kept.push_back({range.end, ranges_[last].end});
  }
  ranges_.erase(ranges_.begin() + first, ranges_.begin() + last);
  ranges_.insert(ranges_.begin() + first, kept.begin(), kept.end());
}

bool RangeSet::contains(const base::ByteRange& range) const {
  const size_t at = first_ending_after(range.begin);
  return at < ranges_.size() && ranges_[at].contains(range);
}

bool RangeSet::overlaps(const base::ByteRange& range) const {
  const size_t at = first_ending_after(range.begin);
  return at < ranges_.size() && ranges_[at].begin < range.end;
}

std::vector<base::ByteRange> RangeSet::missing_in(base::ByteRange range) const {
  std::vector<base::ByteRange> missing;
  for (size_t at = first_ending_after(range.begin); at < ranges_.size() && ranges_[at].begin < range.end; ++at) {
    if (range.begin < ranges_[at].begin) missing.push_back({range.begin, ranges_[at].begin});
    range.begin = ranges_[at].end;
  }
  if (!range.empty()) missing.push_back(range);
  return missing;
}

}  // namespace shardfs::readahead
