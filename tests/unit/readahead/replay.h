// Replay: gives the reads of a table to a FilePolicy as fetch does, and keeps account of what it advises. Whatever is
// advised is under way at once. Every advice is checked: within the object, covering the read, and never wanted twice.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "readahead/policy.h"

namespace shardfs::test {

inline constexpr uint64_t kKiB = 1 << 10;
inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kPage = 4 * kKiB;
inline constexpr uint64_t kRead = 128 * kKiB;  // the kernel's READ

class Replay {
 public:
  explicit Replay(uint64_t size, readahead::PolicyLimits limits = {})
      : size_(size), policy_(size, limits), pages_((size + kPage - 1) / kPage) {}

  Replay& open() {
    policy_.on_open();
    return *this;
  }
  /// One READ as it arrives from the kernel: whole pages.
  readahead::Advice read(uint64_t offset, uint64_t length) {
    const base::ByteRange range = base::ByteRange{offset, offset + length}.intersect({0, size_});
    const bool under_way = all(range, kFetched);
    waits_ += !under_way && !range.empty();
    const auto advice = policy_.on_read({offset, offset + length}, under_way);
    if (range.empty()) {
      REQUIRE(advice.demand.empty());
      REQUIRE(advice.ahead.empty());
      return advice;
    }
    REQUIRE(advice.demand.contains(range));
    REQUIRE(advice.demand.end <= size_);
    REQUIRE(advice.drop.end <= size_);
    dropped_ += advice.drop.size();
    for (uint64_t page = advice.drop.begin / kPage; page * kPage < advice.drop.end; ++page)
      pages_[page] = pages_[page] & kDemanded ? kFetched | kDemanded : 0;
    if (!under_way) mark(advice.demand, kFetched | kDemanded);
    for (const auto& range : advice.ahead) {
      REQUIRE_FALSE(range.empty());
      REQUIRE(range.end <= size_);
      REQUIRE((lost_ || none(range, kAhead)));
      mark(range, kFetched | kAhead);
      ahead_ += range.size();
    }
    return advice;
  }
  /// Reads of the kernel's size from begin to end, in order.
  Replay& forward(uint64_t begin, uint64_t end, uint64_t step = kRead) {
    for (uint64_t at = begin; at < end; at += step) read(at, std::min(step, end - at));
    return *this;
  }
  /// The same, arriving out of order within 2 MiB.
  Replay& shuffled(uint64_t begin, uint64_t end, std::mt19937_64& random, uint64_t step = kRead) {
    for (uint64_t group = begin; group < end; group += 2 * kMiB) {
      std::vector<uint64_t> offsets;
      for (uint64_t at = group; at < std::min(end, group + 2 * kMiB); at += step) offsets.push_back(at);
      std::shuffle(offsets.begin(), offsets.end(), random);
      for (const uint64_t at : offsets) read(at, std::min(step, end - at));
    }
    return *this;
  }
  /// Others have asked for it.
  Replay& prefetched(base::ByteRange range) {
    mark(range, kFetched);
    return *this;
  }
  /// As if the cache had dropped it. From then on bytes may be wanted again.
  void lose(base::ByteRange range) {
    lost_ = true;
    for (uint64_t page = range.begin / kPage; page * kPage < range.end; ++page) pages_[page] = 0;
  }

  uint64_t size() const { return size_; }
  /// Bytes that were asked of the store: each once, however often it was advised; without what was dropped.
  uint64_t fetched() const {
    uint64_t bytes = 0;
    for (size_t page = 0; page < pages_.size(); ++page)
      if (pages_[page] & kFetched) bytes += std::min(kPage, size_ - page * kPage);
    return bytes;
  }
  uint64_t ahead() const { return ahead_; }      // bytes, also those dropped later
  uint64_t dropped() const { return dropped_; }  // bytes
  int waits() const { return waits_; }           // reads of which something was not under way
  readahead::Pattern pattern() const { return policy_.pattern(); }
  const readahead::FilePolicy& policy() const { return policy_; }

 private:
  enum : char { kFetched = 1, kAhead = 2, kDemanded = 4 };
  template <class Test>
  bool every(const base::ByteRange& range, Test test) const {
    for (uint64_t page = range.begin / kPage; page * kPage < range.end; ++page)
      if (!test(pages_[page])) return false;
    return true;
  }
  bool all(const base::ByteRange& range, char flag) const {
    return every(range, [&](char page) { return (page & flag) != 0; });
  }
  bool none(const base::ByteRange& range, char flag) const {
    return every(range, [&](char page) { return (page & flag) == 0; });
  }
  void mark(const base::ByteRange& range, char flags) {
    for (uint64_t page = range.begin / kPage; page * kPage < range.end; ++page) pages_[page] |= flags;
  }

  const uint64_t size_;
  readahead::FilePolicy policy_;
  std::vector<char> pages_;
  uint64_t ahead_ = 0, dropped_ = 0;
  int waits_ = 0;
  bool lost_ = false;
};

}  // namespace shardfs::test
