// Evictor: finds space within the limit and above the floor of free space, by removing files that nobody uses.
// Not the choice of whom (EvictionPolicy) and not the removal itself. It never touches a file that is open or pinned in
// any mount; what is open, unpinned and idle is marked dead when nothing else is left, so that its holders let go.
// Thread rule: thread-safe; one thread of a mount evicts at a time, the others wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "cache/core.h"
#include "cache/eviction.h"
#include "cache/turn.h"

namespace shardfs::cache {

class Evictor {
 public:
  /// An open file that nobody has read for so long may be marked dead. Source: longer than a checkpoint between steps.
  static constexpr std::chrono::minutes kIdle{5};

  Evictor(Core& core, std::unique_ptr<EvictionPolicy> policy) : core_(core), policy_(std::move(policy)) {}

  /// Reserves, after evicting if need be. False: there is no space that may be taken, or the disk is failing.
  bool reserve(uint64_t bytes);
  void release(uint64_t bytes);
  /// Evicts until the use is within the limit: after a start with a smaller one, or when the index has grown.
  void shrink_to_limit();
  /// A file was closed or unpinned by this mount: what could not be evicted may be now.
  void something_closed() { exhausted_until_.store(0, std::memory_order_relaxed); }

 private:
  /// Source: a second of fills past a full cache costs a few looks at the index.
  static constexpr std::chrono::milliseconds kExhaustedFor{200};
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
  bool evict_one();
  bool evict_next();
  bool remove(const IndexRow& row);
  /// The next rows of the index, in the policy's order, into queue_. False at the index's end.
  bool refill();
  bool count_again();
  void mark_idle_dead();

  Core& core_;
  const std::unique_ptr<EvictionPolicy> policy_;  // called with turn_ held
  Turn turn_;
  std::deque<IndexRow> queue_;                  // by turn_
  std::optional<IndexRow> last_asked_;          // by turn_: where the next refill goes on
  base::SteadyTime queue_made_{};               // by turn_
  std::optional<base::SteadyTime> last_count_;  // by turn_
  std::atomic<int64_t> exhausted_until_{0};

  // The floor: one look at the file system serves many reservations.
  std::mutex space_mutex_;  // guards the three below
  base::SteadyTime space_asked_{};
  uint64_t space_left_bytes_ = 0;  // less what was granted since
  bool space_known_ = false;
};

}  // namespace shardfs::cache
