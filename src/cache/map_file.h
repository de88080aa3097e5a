// MapFile: which blocks of one cache file are present, with a checksum each. The format is in docs/cache-format.md.
// Not the data, and not who may write: fill rights and pins are locks that its users take.
// Read through a shared mapping, so that all mounts see a change at once; written by write(2) only, so that a disk that
// fails gives an error. A map that is cut or overwritten while it is in use reads as absent blocks of a dead file.
// Thread rule: thread-safe; the order of changes to one block is kept by the block's fill right. Owns fd and mapping.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/disk.h"
#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"
#include "cache/cache.h"
#include "store/object.h"

namespace shardfs::cache {

/// The state of a block: kAbsent, or the tag of the machine start for which its bytes are known to be good.
inline constexpr uint64_t kAbsent = 0;
/// Never 0. boot_id: what /proc/sys/kernel/random/boot_id says.
uint64_t tag_of_boot(const std::string& boot_id);

uint32_t block_count_of(uint64_t size_bytes);
/// The block's bytes in the object; the last one may be short. Requires: block < block_count_of(size_bytes).
base::ByteRange range_of_block(uint64_t size_bytes, uint32_t block);
/// Of a block's bytes.
uint64_t checksum_of(std::span<const std::byte> block);

class MapFile {
 public:
  /// A whole new map file: nothing is present.
  static std::vector<std::byte> image(const store::ObjectId& id, uint64_t size_bytes, int64_t last_use_ms);
  /// Of image().
  static uint64_t image_bytes(const store::ObjectId& id, uint64_t size_bytes);
  /// Errors: kNotFound; kInvalid: damaged or cut; kUnsupported: of a newer format; kCacheIo.
  static base::Result<MapFile> open(base::Disk& disk, const std::string& path);

  MapFile(MapFile&& other) noexcept;
  MapFile& operator=(MapFile&& other) = delete;

  int fd() const { return fd_.get(); }
  const store::ObjectId& id() const { return id_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint32_t block_count() const { return block_count_; }
  uint64_t file_bytes() const { return file_bytes_; }

  uint64_t state(uint32_t block) const { return load(entry(block) + 8); }
  uint64_t checksum(uint32_t block) const { return load(entry(block)); }
  bool all_present() const;
  /// All are in this state, which is not kAbsent.
  bool all_in(uint64_t state) const;
  bool complete() const;
  /// complete() was true once, also if a block was bad or the map was damaged since: the data may be a backing file.
  bool was_complete() const;
  /// Given up, or damaged().
  bool dead() const { return load(kDeadAt) != 0 || damaged(); }
  /// Cut or overwritten since it was opened.
  bool damaged() const;
  int64_t last_use_ms() const { return static_cast<int64_t>(load(kLastUseAt)); }

  // Errors of all below: kCacheIo.
  base::Result<void> set_state(base::Disk& disk, uint32_t block, uint64_t state);
  /// Checksum first, then the state.
  base::Result<void> set_present(base::Disk& disk, uint32_t block, uint64_t checksum, uint64_t boot_tag);
  base::Result<void> set_complete(base::Disk& disk) { return store(disk, kCompleteAt, kComplete); }
  /// A block of it will become absent, and is to be written again in its place.
  base::Result<void> set_mending(base::Disk& disk) { return store(disk, kCompleteAt, kMending); }
  base::Result<void> set_dead(base::Disk& disk) { return store(disk, kDeadAt, 1); }
  base::Result<void> set_last_use(base::Disk& disk, int64_t ms) { return store(disk, kLastUseAt, uint64_t(ms)); }

 private:
  static constexpr uint64_t kCompleteAt = 40;
  static constexpr uint64_t kDeadAt = 48;
  static constexpr uint64_t kLastUseAt = 56;
  static constexpr uint64_t kComplete = 1;
  static constexpr uint64_t kMending = 2;

  MapFile() = default;
  uint64_t entry(uint32_t block) const { return header_bytes_ + uint64_t{block} * 16; }
  uint64_t load(uint64_t offset) const;
  base::Result<void> store(base::Disk& disk, uint64_t offset, uint64_t value);

  base::UniqueFd fd_;
  base::Mapping mapping_;
  uint64_t file_bytes_ = 0;
  uint64_t header_bytes_ = 0;
  uint64_t size_bytes_ = 0;
  uint32_t block_count_ = 0;
  store::ObjectId id_;
  mutable std::atomic<bool> was_complete_{false};
};

}  // namespace shardfs::cache
