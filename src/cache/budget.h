// Budget: one page in the cache folder that says how much of the limit is used, by all mounts together.
// Not an evictor: it says no, and what happens then is decided elsewhere. Format: docs/cache-format.md.
// Each mount holds a slot by a lock; when it dies its lock vanishes, and its reservation is returned by a count.
// Thread rule: thread-safe. Every change is one read and one write of the page under the *page lock*, which is the last
// lock in the order: a step that runs under it may change one map or name, and takes no other lock but try_lock.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/disk.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::cache {

struct BudgetUse {
  uint64_t committed_bytes = 0;  // of cache files and directories, known to be on the disk
  uint64_t index_bytes = 0;
  uint64_t reserved_bytes = 0;  // of all mounts
  uint64_t orphaned_bytes = 0;  // reserved by mounts that died; until the next count
  uint64_t sum() const { return committed_bytes + index_bytes + reserved_bytes + orphaned_bytes; }
};

class Budget {
 public:
  using Step = std::function<base::Result<void>()>;

  /// limit_bytes: this mount's; overhead_bytes: of it, kept for the files that are not counted. Waits while another
  /// mount counts. Errors: kCacheIo, also when 63 mounts use the folder. A damaged page is made anew, and a count
  /// wanted.
  static base::Result<std::unique_ptr<Budget>> open(base::Disk& disk, const std::string& path, uint64_t limit_bytes,
                                                    uint64_t overhead_bytes);
  /// Leaves the slot; the last one out notes that the figures can be trusted.
  ~Budget();

  /// True if no other mount lived when this one opened the page.
  bool was_alone() const { return was_alone_; }
  /// Somebody died, or the files were changed by hand: the figures should be counted again.
  bool count_wanted() const { return count_wanted_.load(std::memory_order_relaxed); }
  void want_count();

  uint64_t unit_bytes() const { return unit_bytes_; }
  void set_unit_bytes(uint64_t bytes);

  /// All or nothing, against this mount's limit.
  bool try_reserve(uint64_t bytes);
  void release(uint64_t bytes);
  /// The bytes are on the disk now. step: makes it visible to other mounts; if it fails nothing is changed.
  base::Result<void> commit(uint64_t bytes, const Step& step);
  /// The other way round, before they are taken from the disk; release follows when they are.
  base::Result<void> uncommit(uint64_t bytes, const Step& step);
  /// Absolute: what the index's file occupies.
  void set_index_bytes(uint64_t bytes);
  /// Sets the committed bytes to what `measure` finds, with no change in any mount meanwhile. Reservations of dead
  /// mounts are returned.
  base::Result<void> count(const std::function<base::Result<uint64_t>()>& measure);
  /// Looks for mounts that died.
  void notice_dead();

  /// A look at the page, without its lock unless it is damaged; all zero if it can't be read.
  BudgetUse use();
  uint64_t own_reserved_bytes() const { return reserved_.load(std::memory_order_relaxed); }
  /// What this mount may reserve up to: the folder's limit if somebody set one, else its own; less the overhead.
  uint64_t limit_bytes() const;
  /// The limit that holds for all mounts of the folder in place of their own, until the last of them ends. 0: none.
  uint64_t folder_limit_bytes() const { return folder_limit_.load(std::memory_order_relaxed); }
  /// Rounded down to MiB. Errors: kCacheIo.
  base::Result<void> set_folder_limit(uint64_t bytes);
  /// For locks that belong to no file; ranges from kFreeLocks on are unused.
  int fd() const { return fd_.get(); }
  /// Device and inode of the page: whether the folder is still the one that was opened.
  const base::FileStat& identity() const { return identity_; }

  static constexpr uint64_t kPageLockAt = uint64_t{1} << 40;
  static constexpr uint64_t kSlotLocksAt = kPageLockAt + 1;
  static constexpr uint64_t kFreeLocks = kPageLockAt + 1024;

 private:
  static constexpr size_t kSlots = 63;
  struct Slot {
    uint64_t reserved_bytes = 0;
    uint64_t limit_bytes = 0;  // for people
    uint32_t taken = 0;
    uint32_t pid = 0;  // for people
    std::array<uint64_t, 5> unused{};
  };
  struct Page {
    std::array<char, 8> magic{};
    uint32_t version = 0;
    uint32_t clean = 0;  // 1: no mount, and the figures are right
    uint64_t committed_bytes = 0;
    uint64_t index_bytes = 0;
    uint64_t orphaned_bytes = 0;
    uint64_t unit_bytes = 0;
    uint32_t count_wanted = 0;
    uint32_t limit_mib = 0;  // of the folder; 0: each mount's own
    uint64_t checksum = 0;   // of the page with 0 here
    std::array<Slot, kSlots> slots{};
    BudgetUse use() const;
    uint64_t right_checksum() const;
    bool sound() const;
  };
  static_assert(sizeof(Page) == 4096);

  Budget(base::Disk& disk, uint64_t limit_bytes, uint64_t overhead_bytes)
      : disk_(disk), own_limit_bytes_(limit_bytes), overhead_bytes_(overhead_bytes) {}
  base::Result<void> enter();
  /// Runs change(page) under the page lock and writes the page if it returned no error. Errors: of lock, read and
  /// change; if only the writing failed a count is wanted, and `written` (may be null) gets false.
  base::Result<void> with_page(const std::function<base::Result<void>(Page&)>& change, bool* written = nullptr);
  /// Under the page lock.
  base::Result<void> read(Page& page);
  /// For a page that is not there, or was damaged by hand: full until it is counted, so that the limit holds.
  Page new_page() const;
  Slot own_slot() const;
  /// Under the page lock: moves the reservations of dead mounts to the orphaned bytes.
  void collect_dead(Page& page);

  base::Disk& disk_;
  const uint64_t own_limit_bytes_;
  const uint64_t overhead_bytes_;
  base::UniqueFd fd_;
  base::FileStat identity_;
  size_t slot_ = kSlots;
  const uint32_t pid_ = static_cast<uint32_t>(::getpid());
  bool was_alone_ = false;
  uint64_t unit_bytes_ = 0;
  std::atomic<bool> count_wanted_{false};
  std::atomic<uint64_t> reserved_{0};      // changed under mutex_
  std::atomic<uint64_t> folder_limit_{0};  // as the page said last
  std::mutex mutex_;                       // the page lock among this mount's threads; held with it
};

}  // namespace shardfs::cache
