// ShardOrder: from the opens in one directory to the shards that are opened next. Four sources: the numbers in names,
// the stride of one process, who followed whom in the last epoch, and the coming list that a job gives as a hint. A
// source that fails more than it hits is silent, is scored on in the shadow, and comes back. Not a fetcher: it says
// which names, never how much of them or whether that is resident. Pure: no clock, I/O or thread. Thread rule:
// thread-compatible; one a directory, under its owner's lock. Memory and the time of a call are bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "readahead/hint_list.h"
#include "readahead/name_order.h"
#include "readahead/number_fronts.h"

namespace shardfs::readahead {

class ShardOrder {
 public:
  enum class Source : uint8_t { kNumbered, kStride, kLastEpoch, kHint };
  struct Guess {
    std::string name;
    Source source;
  };
  /// A directory with more names is only read ahead by hints, and a hint is no longer. Source: 100,000 shards of 100 MB
  /// are 10 TB, and 20 MB of memory here.
  static constexpr size_t kNamesLimit = 100000;

  /// The names of all files that the directory has now, in any order. What was learned of those that stay is kept.
  /// Without it (or above kNamesLimit) only hints say anything. O(n log n), O(n) if they come in order:
  /// up to some 0.1 s for 100,000 names.
  void set_names(std::vector<std::string> names);

  /// A shard was opened. process: the thread id of the FUSE request, 0 if unknown. What comes next, most likely first,
  /// at most count names; none that is open now or was just opened. As a rule count is readers() + 1, as this one is
  /// not yet among them; more where shards are small. 0 learns and says nothing. O(log n + count).
  /// Opens of one shard again and again by one process say nothing.
  std::vector<Guess> on_open(std::string_view name, uint32_t process, size_t count);
  /// One for each on_open. Without a process: RELEASE has none.
  void on_close(std::string_view name);
  /// Different shards that are open now.
  size_t readers() const { return open_.size(); }

  /// The coming list of this directory, in order; it takes the place of an earlier one, or goes on after it. Consumed
  /// as its names are opened. Names that do not exist are ignored. How many were taken.
  size_t hint(std::vector<std::string> names, bool append = false);
  /// The first names of the hint: what to begin with before the job opens anything.
  std::vector<Guess> hinted(size_t count);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kProcesses = 64;   // Source: 16 workers of four jobs; the one that opened longest ago goes
  static constexpr size_t kRecentNames = 4;  // Source: LitData reads a few chunks by turns

  // How often a source was right lately.
  struct Score {
    int points = 0;
    int trials = 2;  // guesses that it may still say before it was right or wrong once
    void right();
    void wrong();
    bool speaks() const { return points > 0; }
  };
  struct Process {
    uint32_t id = 0;
    uint64_t used = 0;
    std::array<uint64_t, kRecentNames> recent{};  // hashes of the names it opened last, newest first
    uint32_t last = kNone;                        // place of its last step
    int64_t stride = 0;                           // its last; 0: none yet
    uint32_t by_stride = kNone;                   // where its stride leads
    uint32_t by_last_epoch = kNone;               // who followed its last shard
  };
  struct Place {
    uint32_t stepped = 0;        // tick of the last step here; 0: never
    uint32_t foretold = 0;       // tick at which the last epoch led here
    uint32_t successor = kNone;  // who came after it in one process
  };
  struct HashText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  class Answer;

  Process& process_of(uint32_t id);
  bool is_repeat(Process& process, std::string_view name) const;
  bool is_open(std::string_view name) const { return open_.find(name) != open_.end(); }
  bool is_recent(uint32_t place) const;
  uint32_t span(uint32_t readers) const;
  void learn_hint(std::string_view name, uint32_t readers);
  void learn_numbers(uint32_t place, uint32_t readers, bool seen);
  void learn_stride(Process& process, uint32_t place);
  void learn_successor(Process& process, uint32_t place, uint32_t readers);
  void say_hint(Answer& answer, uint32_t offers);
  void say_known(Answer& answer, const Process& process, uint32_t place, uint32_t readers);
  void say_untried(Answer& answer, const Process& process, uint32_t place);
  bool exists(std::string_view name) const { return names_.size() == 0 || names_.find(name).has_value(); }

  NameOrder names_;  // empty: unknown, or too many
  std::vector<Place> places_;
  std::vector<Process> processes_;
  std::unordered_map<std::string, uint32_t, HashText, std::equal_to<>> open_;  // how often
  NumberFronts fronts_;
  HintList hints_;
  int64_t common_stride_ = 0;  // shown by several processes; new ones are expected to go on with it
  Score numbered_, stride_, last_epoch_, hint_;
  uint64_t opens_ = 0;
  uint32_t tick_ = 0;  // steps
};

std::string_view name_of(ShardOrder::Source source);

}  // namespace shardfs::readahead
