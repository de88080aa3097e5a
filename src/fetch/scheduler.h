// Scheduler: which part starts next. It shares the connections and the memory of the mount among all files with wants:
// demand first, then read-ahead, then warm-up; within one priority the files take turns.
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
#include <vector>

#include "store/object_store.h"

namespace shardfs::fetch {

class SourceFileImpl;
class Part;
struct Shared;

class Scheduler {
 public:
  /// What may be dropped: blocks of files that nobody reads, also of open ones, also those that a parked read needs.
  enum class Droppable { kOfClosed, kOfOpen, kOfParked };

  explicit Scheduler(Shared& shared);

  /// The file has something wanted at this priority. Does not start anything: call pump after it, under no lock.
  void enqueue(std::shared_ptr<SourceFileImpl> file, store::Priority priority);
  /// Starts parts while there are wants, connections and memory. Under no lock of the caller's.
  void pump();
  /// A part has ended; its connection is free. Does not pump.
  void part_ended(store::Priority priority);
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
  std::shared_ptr<Part> plan_next(bool& out_of_memory);
  bool may_start(size_t priority) const;
  bool evict(store::Priority priority);
  bool drop_one(std::deque<IdleBlock>& blocks, Droppable which);
  void trim(std::deque<IdleBlock>& blocks);

  Shared& shared_;
  const unsigned connections_;
  const unsigned demand_reserve_;  // connections that only demand may use
  std::mutex mutex_;               // guards queues_, active_
  std::condition_variable idle_;
  std::array<std::deque<std::shared_ptr<SourceFileImpl>>, 3> queues_;
  std::array<unsigned, 3> active_{};
  std::atomic<bool> starved_{false};  // somebody waits for memory
  std::mutex idle_mutex_;             // guards the two below
  std::deque<IdleBlock> saved_;
  std::deque<IdleBlock> unsaved_;
};

}  // namespace shardfs::fetch
