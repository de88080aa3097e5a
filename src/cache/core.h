// Core: what all parts of one opened cache folder share. A bundle of parts with no behaviour but failure keeping.
// Thread rule: the parts are thread-safe; the references are constant after open. It lives as long as its last user
// (the cache, its files, their pins).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/disk.h"
#include "base/metrics.h"
#include "cache/budget.h"
#include "cache/charges.h"
#include "cache/folder.h"
#include "cache/index.h"

namespace shardfs::cache {

class Evictor;
class File;
class FileTable;
class Share;

/// Whether the disk takes writes. After a failure it is left alone for a while.
class Health {
 public:
  /// Source: long enough that a dead disk costs nothing, short enough that a full one is used again soon.
  static constexpr std::chrono::seconds kBackOff{5};

  Health(const base::Clock& clock, base::Counter& errors) : clock_(clock), errors_(errors) {}
  bool failing() const { return clock_.now().time_since_epoch().count() < until_.load(std::memory_order_relaxed); }
  /// Counts it, warns once for its kind, and backs off unless only descriptors or memory were short.
  void note_write_failure(const base::Error& error);

 private:
  const base::Clock& clock_;
  base::Counter& errors_;
  std::atomic<int64_t> until_{0};
};

struct Core {
  Core(base::Disk& disk_in, const base::Clock& clock_in, base::Metrics& metrics, Folder folder_in, std::string space);
  ~Core();

  int64_t wall_ms() const;
  /// The folder's if it has one, else this mount's.
  uint64_t limit_bytes() const;
  /// False once the folder was removed or replaced: then nothing new is made in it.
  bool folder_is_ours();

  base::Disk& disk;
  const base::Clock& clock;
  const Folder folder;
  const std::string name_space;
  uint64_t boot_tag = 0;
  uint64_t own_limit_bytes = 0;
  uint64_t min_free_bytes = 0;
  Charges charges;

  base::Gauge& used_gauge;
  base::Gauge& limit_gauge;
  base::Gauge& reserved_gauge;
  base::Counter& evicted_files;
  base::Counter& evicted_bytes;
  base::Counter& bad_blocks;
  base::Counter& checked_bytes;
  base::Counter& written_bytes;
  base::Counter& refused_blocks;
  Health health;

  // In the order of making; never null after open.
  std::unique_ptr<Budget> budget;
  std::unique_ptr<Index> index;
  std::unique_ptr<Evictor> evictor;
  std::unique_ptr<Share> share;
  std::unique_ptr<FileTable> files;
};

/// The locks on a data file, as offsets far from each other's meaning. See docs/cache-format.md.
inline constexpr base::ByteRange kPinLock = {0, 1};
inline constexpr base::ByteRange kOpenLock = {1, 2};
inline constexpr base::ByteRange kWholeLock = {0, 2};
/// In the map file: the right to fill a block is a lock on one byte.
inline constexpr uint64_t kFillLocksAt = uint64_t{1} << 40;
inline constexpr base::ByteRange fill_lock(uint32_t block) { return {kFillLocksAt + block, kFillLocksAt + block + 1}; }
inline constexpr base::ByteRange all_fill_locks(uint32_t blocks) { return {kFillLocksAt, kFillLocksAt + blocks}; }

}  // namespace shardfs::cache
