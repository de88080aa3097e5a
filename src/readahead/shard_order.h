// ShardOrder: from the opens in one directory to the shards that are opened next. Four sources: the numbers in names,
// the stride of one process, who followed whom in the last epoch, and the coming list that a job gives as a hint. A
// source that fails more than it hits is silent, is scored on in the shadow, and comes back. Not a fetcher: it says
// which names, never how much of them or whether that is resident. Pure: no clock, I/O or thread. Thread rule:
// thread-compatible; one a directory, under its owner's lock. Memory and the time of a call are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardfs::readahead {

class ShardOrder {
 public:
  enum class Source : uint8_t { kNumbered, kStride, kLastEpoch, kHint };
  struct Guess {
    std::string name;
    Source source;
  };
  /// A directory with more names is only read ahead by hints. Source: 100,000 shards of 100 MB are 10 TB.
  static constexpr size_t kNamesLimit = 100000;

  /// The names of all files that the directory has now, in any order. What was learned of those that stay is kept.
  /// Without it (or above kNamesLimit) only hints say anything. O(n log n); O(n) if nothing or little changed.
  void set_names(std::vector<std::string> names);

  /// A shard was opened. process: the thread id of the FUSE request, 0 if unknown. What comes next, most likely first,
  /// at most count names; none that is open now or was just opened. As a rule count is readers() + 1, as this one is
  /// not yet among them; more where shards are small. 0 learns and says nothing. O(log n + count).
  std::vector<Guess> on_open(std::string_view name, uint32_t process, size_t count);
  /// One for each on_open. Without a process: RELEASE has none.
  void on_close(std::string_view name);
  /// Different shards that are open now.
  size_t readers() const;

  /// The coming list of this directory, in order; it takes the place of an earlier one, or goes on after it. Consumed
  /// as its names are opened. Names that do not exist are ignored. How many were taken.
  size_t hint(std::vector<std::string> names, bool append = false);
  /// The first names of the hint: what to begin with before the job opens anything.
  std::vector<Guess> hinted(size_t count);
};

std::string_view name_of(ShardOrder::Source source);

}  // namespace shardfs::readahead
