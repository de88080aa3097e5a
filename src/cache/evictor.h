// Evictor: finds space within the limit and above the floor of free space, by removing files that nobody uses.
// Not the choice of whom (EvictionPolicy) and not the removal itself. It never touches a file that is open or pinned in
// any mount; what is open, unpinned and idle is marked dead when nothing else is left, so that its holders let go.
// Thread rule: thread-safe; one thread of a mount evicts at a time, the others wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/core.h"
#include "cache/eviction.h"
#include "cache/removal.h"
#include "cache/turn.h"

namespace shardfs::cache {

class Evictor {
 public:
  /// An open file that nobody has read for so long may be marked dead. Source: longer than a checkpoint between steps.
  static constexpr std::chrono::minutes kIdle{5};

  Evictor(Core& core, std::unique_ptr<EvictionPolicy> policy) : core_(core), policy_(std::move(policy)) {}

  /// Reserves for this object, after evicting if need be. False: there is no space that may be taken for it, or the
  /// disk is failing.
  bool reserve(uint64_t bytes, const store::ObjectId& newcomer);
  /// Whether so much could be reserved for it now; evicts as reserve does.
  bool admits(uint64_t bytes, const store::ObjectId& newcomer);
  void release(uint64_t bytes);
  /// Evicts whatever may leave for anybody until so much could be reserved. False: it can't be had.
  bool make_room(uint64_t bytes);
  /// Removes this file, and counts it as evicted, if nobody uses it and it is not pinned.
  Removal evict(const IndexRow& row);
  /// Evicts until the use is within the limit: after a start with a smaller one, or when the index has grown.
  void shrink_to_limit();
  /// A file was closed or unpinned by this mount: what could not be evicted may be now.
  void something_closed() { closed_.store(true, std::memory_order_relaxed); }
  /// Those that may leave for this newcomer, the first to leave first.
  std::vector<IndexRow> in_order(std::vector<IndexRow> rows, const store::ObjectId* newcomer);
  EvictionPolicy& policy() { return *policy_; }

 private:
  /// Source: a second of fills past a full cache costs a few looks at the index, and never more than a tenth of it.
  static constexpr std::chrono::milliseconds kExhaustedFor{200};
  static constexpr int kExhaustedTimes = 10;
  /// Source: a count of 200,000 files takes about a second.
  static constexpr std::chrono::seconds kBetweenCounts{60};
  static constexpr size_t kCandidates = 256;

  /// Source: last uses are that old in the index anyway.
  static constexpr std::chrono::seconds kQueueFresh{1};
  static constexpr size_t kIdleAtOnce = 4;

  enum class Floor { kAbove, kBelow, kUnknown };
  Floor above_floor(uint64_t bytes);
  void warn_of_floor() const;
  // All below: with turn_ held.
  /// newcomer: for whom; null: there is too much.
  bool evict_one(const store::ObjectId* newcomer);
  bool evict_next(const store::ObjectId* newcomer);
  /// The next rows of the index, in the policy's order, into queue_. False at the index's end.
  bool refill(const store::ObjectId* newcomer);
  bool count_again();
  void mark_idle_dead(const store::ObjectId* newcomer);
  /// Nothing was found to leave for this set a moment ago, and nothing was closed since.
  bool exhausted_for(const std::string& set);

  Core& core_;
  const std::unique_ptr<EvictionPolicy> policy_;
  Turn turn_;
  std::deque<IndexRow> queue_;                  // by turn_; may leave for queue_set_
  std::string queue_set_;                       // by turn_
  std::optional<IndexRow> last_asked_;          // by turn_: where the next refill goes on
  base::SteadyTime queue_made_{};               // by turn_
  std::optional<base::SteadyTime> last_count_;  // by turn_
  std::mutex exhausted_mutex_;                  // guards exhausted_until_
  std::map<std::string, base::SteadyTime> exhausted_until_;
  std::atomic<bool> closed_{false};

  // The floor: one look at the file system serves many reservations.
  std::mutex space_mutex_;  // guards the three below
  base::SteadyTime space_asked_{};
  uint64_t space_left_bytes_ = 0;  // less what was granted since
  bool space_known_ = false;
};

}  // namespace shardfs::cache
