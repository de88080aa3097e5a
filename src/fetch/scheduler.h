// Scheduler: which part starts next. It shares the connections and the memory of the mount among all files with wants:
// in the order of causes, demand first; within one cause the files take turns.
// It does not know what a part is made of: files plan and start their own.
// Thread rule: thread-safe. Lock order: mutex_, then a file's lock, then idle_mutex_ (a leaf).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fetch/cause.h"

namespace shardfs::fetch {

class SourceFileImpl;
class Part;
struct Shared;

class Scheduler {
 public:
  /// What may be dropped: blocks of files that nobody reads or is expected to read soon; also of open ones, but not
  /// those that a scan comes to soon; also of closed ones that are expected; also of all open ones; also those that a
  /// parked read needs.
  enum class Droppable { kUnexpected, kUnawaited, kOfClosed, kOfOpen, kOfParked };

  explicit Scheduler(Shared& shared);

  /// The file has something wanted for this cause. Does not start anything: call pump after it, under no lock.
  void enqueue(std::shared_ptr<SourceFileImpl> file, Cause cause);
  /// Starts parts while there are wants, connections and memory. Under no lock of the caller's.
  void pump();
  /// Its last leg has ended; the connection is free. Does not pump.
  void part_ended(const Part& part);
  /// A late part may be asked for a second time: there is a connection. False: there is none.
  bool begin_second_leg();
  void second_leg_ended();
  /// The parts under way, in the order of their start.
  std::vector<std::shared_ptr<Part>> started() const;
  /// Memory may have become free. Pumps if anybody waits for it.
  void memory_freed();
  /// A full block that may be dropped when memory is short: one that is in the cache file too, or one that is not.
  void add_idle(std::weak_ptr<SourceFileImpl> file, uint32_t block, bool saved);
  /// Forgets blocks in the lists that are in memory no more, so that the lists stay as short as memory allows.
  void trim();
  /// Returns when no part is under way.
  void wait_until_idle();

 private:
  struct IdleBlock {
    std::weak_ptr<SourceFileImpl> file;
    uint32_t block;
  };
  struct Next {
    std::shared_ptr<Part> part;          // null: nothing can start now
    std::optional<Cause> out_of_memory;  // whose part waits for memory
    bool displaces = false;              // the part is demand, and the store has no connection for it
    bool over_share = false;             // a file waits for its own memory
    std::vector<std::shared_ptr<SourceFileImpl>> without_wants;
  };
  Next plan_next();
  bool store_is_busy() const;
  std::shared_ptr<Part> choose_victim(bool displaces);
  bool may_start(Cause cause) const;
  unsigned active() const;
  unsigned slots() const;
  unsigned reserve() const;
  bool evict(Cause cause);
  enum class End { kOldest, kNewest };
  bool drop_one(std::deque<IdleBlock>& blocks, Droppable which, End from = End::kOldest);
  bool take_back_one();
  void trim(std::deque<IdleBlock>& blocks);

  Shared& shared_;
  const unsigned connections_;
  mutable std::mutex mutex_;  // guards all up to second_legs_
  std::condition_variable idle_;
  std::array<std::deque<std::shared_ptr<SourceFileImpl>>, kCauses> queues_;
  std::array<unsigned, kCauses> active_{};
  std::vector<std::shared_ptr<Part>> started_;
  unsigned preempting_ = 0;           // cancelled, and not ended yet
  unsigned second_legs_ = 0;          // connections beyond one a part
  std::atomic<bool> starved_{false};  // somebody waits for memory
  // For blocks to drop: not before, but for demand. All were looked at in vain.
  std::atomic<base::SteadyTime> look_at_{base::SteadyTime{}};
  std::atomic<unsigned> idle_since_look_{0};  // blocks
  std::mutex idle_mutex_;                     // guards the two below
  std::deque<IdleBlock> saved_;
  std::deque<IdleBlock> unsaved_;
};

}  // namespace shardfs::fetch
