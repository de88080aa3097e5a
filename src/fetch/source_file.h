// SourceFileImpl: one object that is being read: who waits for which bytes, what is in memory, what is under way.
// Not a scheduler (it only plans its own next part) and not a cache (it calls one).
// Thread rule: thread-safe; mutex_ guards everything that is not constant. Callbacks, store calls and disk I/O happen
// outside of it. Owns its memory blocks; parts under way own it.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "fetch/fetcher.h"
#include "fetch/memory_blocks.h"
#include "fetch/part.h"
#include "fetch/shared.h"

namespace shardfs::fetch {

class SourceFileImpl final : public SourceFile, public std::enable_shared_from_this<SourceFileImpl> {
  struct Parked;
  using ParkedPtr = std::shared_ptr<Parked>;
  /// Where a piece of a read comes from; no buffer: the cache file.
  struct Piece {
    base::ByteRange range;
    std::shared_ptr<base::Buffer> buffer;
  };
  using PieceList = std::vector<Piece>;
  struct Ready {
    ParkedPtr read;
    PieceList pieces;
  };
  struct Prefetch {
    base::ByteRange range;
    std::function<void()> done;
  };
  struct Ended {
    ParkedPtr read;
    base::Error error;
  };

 public:
  SourceFileImpl(Shared& shared, store::ObjectInfo info, store::ObjectId id);
  ~SourceFileImpl() override;

  const store::ObjectInfo& info() const override { return info_; }
  void opened(uint32_t process) override;
  void closed() override;
  std::shared_ptr<ParkedRead> read(base::ByteRange range, uint32_t process, ReadDone done) override;
  void prefetch(base::ByteRange range, Cause cause, std::function<void()> done) override;
  void cancel_prefetch() override;
  Backing backing() override;
  uint64_t cached_bytes() override;
  bool seems_cached() override;
  std::string state() override;

  // For the scheduler.
  /// kOverShare: the file holds its share of the memory; others may go on.
  enum class Planned { kPart, kNothing, kNoMemory, kOverShare };
  Planned plan_part(Cause cause, std::shared_ptr<Part>& part);
  /// Takes the fill rights, then starts the GET. Under no lock.
  void start_part(const std::shared_ptr<Part>& part);
  /// Calls the `done` of every prefetch that has come to its end. Under no lock.
  void tell_settled();
  enum class Drop { kDropped, kKept, kGone };
  Drop drop_block(uint32_t block, Scheduler::Droppable which);
  bool in_memory(uint32_t block);
  /// Drops the block that a reader would reach last, if it holds more than its share; it is wanted again.
  bool give_back_block();
  bool wants_anything(Cause cause);
  struct Standing {
    Cause urgency;
    uint64_t arrived_bytes;
  };
  /// What cancelling the part would cost; nothing: it must not be.
  std::optional<Standing> standing_of(const Part& part);
  /// What to cancel, under no lock. With the scheduler's lock.
  std::vector<store::RequestHandle> preempt(Part& part);

  // For stragglers.
  enum class Lateness { kOnTime, kAhead, kWaitedFor };
  Lateness lateness(const Part& part, base::SteadyTime now, const Tail::Limits& limits);
  /// False: the part needs none any more. Under no lock.
  bool start_second_leg(const std::shared_ptr<Part>& part);

  // For legs.
  struct Arrival {
    std::vector<Ready> ready;
    std::vector<store::RequestHandle> lost;  // to be cancelled
    bool start_saving = false;
  };
  /// With the part's turn.
  Arrival on_received(Leg& leg, uint64_t progress, bool wins);
  /// Under no lock.
  void take_in(Arrival arrival);

  // For the fetcher.
  /// Answers parked reads whose deadline has passed; wants again what others need and nothing brings.
  void look_after_parked(base::SteadyTime now);
  /// Answers all parked reads and cancels all parts; nothing starts after it.
  void stop();
  void drop_memory();
  /// Looks for what the cache has of it, if that is not known. Under no lock.
  void find_cache_file();
  /// If nobody reads it and nothing is under way. True if it had one.
  bool let_go_of_cache_file();
  FileState file_state();

 private:
  // All with mutex_ held.
  FileState state_now() const;
  bool idle() const;  // no handle, nothing parked, under way or being written
  void set_cache_file(std::shared_ptr<cache::CacheFile> file);
  bool in_cache(uint32_t block) const;
  std::optional<PieceList> locate(const base::ByteRange& range);
  void note_served(const base::ByteRange& range);
  uint64_t resident_bytes_of(const base::ByteRange& range) const;
  const Part* part_at(uint64_t offset) const;
  uint64_t next_missing(uint64_t from, uint64_t end) const;
  uint64_t missing_end(uint64_t from, uint64_t end) const;
  void want(Cause cause, base::ByteRange range);
  /// Before what was wanted ahead earlier, the first of them first; a new range that goes on from a wanted one follows
  /// it, since that is nearer to its reader.
  void want_ahead(const std::vector<base::ByteRange>& ranges);
  /// True if any of it was wanted.
  bool unwant_ahead(const base::ByteRange& range);
  /// Not read ahead any more; parts of it of which nothing has arrived are to be cancelled, without the lock.
  std::vector<store::RequestHandle> drop_ahead(const base::ByteRange& range);
  bool is_wanted(const base::ByteRange& range) const;
  /// A run of reads that this one belongs to comes near the end of the object.
  bool is_end_of_scan(const base::ByteRange& read) const;
  /// Parts of the range under way become at least as urgent; those whose request is to be told.
  std::vector<store::RequestHandle> raise_parts(const base::ByteRange& range, Cause cause);
  /// Parts under way from this urgency on that no read waits for: to be cancelled, without the lock.
  std::vector<store::RequestHandle> give_up_parts(Cause first);
  /// part: that brought it; null: another process did.
  std::vector<Ready> take_ready(const base::ByteRange& arrived, const Part* part);
  void count_stall(const Parked& read, const Part* part, base::SteadyTime now);
  void count_holding();
  /// The kernel's page cache has it, and the cache file if there is one.
  void drop_read_through(uint32_t block);
  void settle_failed_part(const Part& part, const base::Error& error, std::vector<Ended>& ended);
  ParkedPtr unpark(Parked* read);
  bool overlaps_parked(const base::ByteRange& range) const;

  // Under no lock.
  void park(const ParkedPtr& read, bool counted);
  void deliver(const ParkedPtr& read, PieceList pieces);
  void note_if_idle();
  void end_predictions();
  /// From this cause on: nothing is wanted any more, and parts that nobody waits for are cancelled.
  void give_up(Cause first);
  void deliver_all(std::vector<Ready> ready);
  void end_read(const ParkedPtr& read, base::Error error);
  void refetch(const ParkedPtr& read, const base::Error& error);
  std::shared_ptr<cache::CacheFile> fill_target();
  bool is_impatient(uint32_t block) const;
  void start_leg(const std::shared_ptr<Leg>& leg, store::GetOptions get);
  void end_leg(const std::shared_ptr<Leg>& leg, const base::Result<void>& result);
  void end_part(const std::shared_ptr<Part>& part, const base::Result<void>& result);
  struct Save {
    uint32_t block;
    std::shared_ptr<cache::CacheFile> target;
    bool granted;  // the right to fill it is held
  };
  void run_saves();
  void save_block(const Save& save);
  void tell_if_complete(cache::CacheFile& file);
  void schedule_foreign_poll();
  void poll_foreign();
  void start_pending(bool demand, bool ahead);

  /// Of this version, in the tables of the mount.
  std::string name() const { return id_.key + '\n' + id_.version; }

  Shared& shared_;
  const store::ObjectInfo info_;
  const store::ObjectId id_;

  mutable std::mutex mutex_;
  readahead::FilePolicy policy_;
  MemoryBlocks memory_;
  Origins origins_;
  std::shared_ptr<cache::CacheFile> cache_file_;  // null: none (yet)
  bool cache_looked_up_ = false;
  bool cache_refused_ = false;  // it may not enter, or the disk failed: stream
  bool complete_told_ = false;  // on_complete was called, or need not be
  std::array<std::deque<base::ByteRange>, kCauses> wants_;
  std::vector<Prefetch> prefetches_;  // those that somebody wants to hear of
  std::vector<std::shared_ptr<Part>> parts_;
  std::list<ParkedPtr> parked_;
  std::map<uint32_t, base::SteadyTime> foreign_;  // blocks that another process fills, since when
  std::set<uint32_t> impatient_;                  // those that are not waited for any more
  bool polling_foreign_ = false;
  unsigned handles_ = 0;
  base::SteadyTime expected_until_{};  // somebody guessed that it will be read
  bool holding_ = false;               // counted in shared_.holders
  bool short_of_memory_ = false;       // demand had to wait for it
  unsigned writes_ = 0;                // blocks in saves_ or being written
  // Full blocks on their way to the cache file. One thread at a time writes a file: two would only wait for its inode.
  std::deque<Save> saves_;
  bool saving_ = false;
  std::optional<base::Error> changed_;  // the store has another version now
  bool stopped_ = false;
  bool scan_told_ = false;  // since it has handles
};

}  // namespace shardfs::fetch
