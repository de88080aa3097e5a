// Cache: whole objects as sparse local files, shared by all mounts of a host that use one folder.
// Not a downloader: it never calls the store. It says what is resident, takes blocks, and keeps to its limit.
// Absence, refusal and failure of the disk are values: a caller that gets nothing streams past the cache.
// Thread rule: Cache and CacheFile are thread-safe. Every call may block on local disk I/O, none on the network.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/byte_range.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "store/object.h"

namespace shardfs::cache {

/// The unit of residence. Source: docs/decisions/0004-blocks-and-parts.md.
inline constexpr uint64_t kBlockBytes = 1 << 20;

/// What leaves when space is needed, and what may enter: docs/decisions/0011-eviction.md.
enum class Eviction { kNextUse, kLeastRecentlyUsed };

struct CacheOptions {
  std::string folder;                    // made if missing, mode 0700
  base::SizeOrPercent limit;             // of the file system's size; hard
  base::SizeOrPercent min_free;          // floor of free space; nothing is written below it
  std::string trust_namespace = "site";  // entries of other namespaces are not seen; [A-Za-z0-9._-]
  Eviction eviction = Eviction::kNextUse;
  std::string set_prefix;             // of this mount's keys; the names after it are the sets that jobs scan
  base::SizeOrPercent share{0, 100};  // of the limit: what objects below set_prefix may take, by this mount's doing
  bool scrub = false;                 // checks all blocks now and then, at a twentieth of the disk's time
  std::string boot_id;                // names the machine's start for verified(); empty: the kernel's (tests differ)
};

/// The answer to a wish to fill one block.
enum class FillAnswer {
  kGranted,   // the caller must end it with write_block or abandon_fill
  kResident,  // nothing to do
  kBusy,      // another process fills it: look again soon
  kRefused,   // no space within the limit, or the file is dead: stream
};

/// Keeps a cache file from being evicted, by this or another process, while it lives.
class Pin {
 public:
  virtual ~Pin() = default;
};

/// The local file of one ObjectId. One instance a process and ObjectId while it is in use.
class CacheFile {
 public:
  virtual ~CacheFile() = default;

  virtual uint64_t size_bytes() const = 0;
  virtual uint32_t block_count() const = 0;
  /// Evicted or given up: drop it and ask the cache again. A descriptor that is out stays readable.
  virtual bool dead() const = 0;
  /// Cheap (a look into the shared map).
  virtual bool has_block(uint32_t block) const = 0;
  virtual uint64_t resident_bytes() const = 0;
  /// All blocks present; synced too if the object is not small.
  virtual bool complete() const = 0;
  /// complete, and every block written or checked since the machine started: the kernel may read it by itself.
  virtual bool verified() const = 0;

  /// Fills `into` (range.size() bytes). Blocks that were not verified since the machine started are checked first.
  /// Errors: kNotFound if a block is not resident; kIntegrity if one was bad (it has been dropped); kCacheIo.
  virtual base::Result<void> read(base::ByteRange range, std::span<std::byte> into) = 0;

  /// Takes the right to fill one block and reserves its space.
  virtual FillAnswer begin_fill(uint32_t block) = 0;
  /// data: exactly the block (kBlockBytes, or the rest at the end of the object). Ends the fill, also on error.
  /// Errors: kCacheIo, kCacheFull.
  virtual base::Result<void> write_block(uint32_t block, std::span<const std::byte> data) = 0;
  virtual void abandon_fill(uint32_t block) = 0;
  /// If all blocks are resident: syncs, then publishes the file as complete. True if it is complete now.
  virtual base::Result<bool> finish() = 0;

  /// Null if the file is dead.
  virtual std::unique_ptr<Pin> pin() = 0;
  /// A descriptor of its own, read-only, for the kernel. Requires: complete(), and a Pin held while it is used.
  virtual base::Result<base::UniqueFd> backing_descriptor() = 0;
};

struct CacheStats {
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;  // allocated or reserved, all mounts of the folder
  uint64_t free_bytes = 0;  // that may be taken without evicting: within the limit, and above the floor of free space
  uint64_t files = 0;       // known to the index
  uint64_t complete_files = 0;
  uint64_t evicted_files = 0;  // by this process
  uint64_t evicted_bytes = 0;
  uint64_t bad_blocks = 0;
  bool failing = false;  // the disk refused; the cache is passed by
};

class Holdings;

class Cache {
 public:
  virtual ~Cache() = default;
  /// Opens or makes the folder. Errors: kInvalid (nonsense sizes, a folder that is not ours, foreign owner, newer
  /// format), kCacheIo (can't be made or written).
  static base::Result<std::unique_ptr<Cache>> open(CacheOptions options, base::Disk& disk, const base::Clock& clock,
                                                   base::Metrics& metrics);
  /// The file for this object, made if it may enter. Null: it may not (too large, no space, disk failing).
  virtual std::shared_ptr<CacheFile> open_file(const store::ObjectId& id, uint64_t size_bytes) = 0;
  /// Only if something of it is resident already; else null.
  virtual std::shared_ptr<CacheFile> find_file(const store::ObjectId& id, uint64_t size_bytes) = 0;
  /// Whether a file of this object is in the folder, without opening it: it may hold all of it, or a part.
  virtual bool has_file(const store::ObjectId& id, uint64_t size_bytes) = 0;
  /// Notes that the object was opened or read now (last use). Batched; never blocks on the index.
  virtual void touch(const store::ObjectId& id) = 0;
  virtual CacheStats stats() const = 0;
  /// Writes what is batched. The destructor does it too.
  virtual void flush() = 0;
  /// What lies in the folder, for the person who keeps it; as long as the cache. Null: there is no folder.
  virtual Holdings* holdings() { return nullptr; }
};

}  // namespace shardfs::cache
