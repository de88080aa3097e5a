// File: the CacheFile of one ObjectId in this mount.
// Not the making of its files (FileTable) nor their removal, except that the last holder of a dead one removes it.
// Thread rule: thread-safe. Two mutexes, never held together and never across data I/O: one for the set of fills, one
// for the count of pins.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "cache/block_reader.h"
#include "cache/block_writer.h"
#include "cache/cache.h"
#include "cache/core.h"
#include "cache/file_table.h"
#include "cache/map_file.h"

namespace shardfs::cache {

class File final : public CacheFile, public std::enable_shared_from_this<File> {
 public:
  /// used: that it is opened is a use of it.
  File(std::shared_ptr<Core> core, FileKey key, OpenPair pair, bool used);
  ~File() override;

  uint64_t size_bytes() const override { return map_.size_bytes(); }
  uint32_t block_count() const override { return map_.block_count(); }
  bool dead() const override { return map_.dead(); }
  bool has_block(uint32_t block) const override;
  uint64_t resident_bytes() const override;
  bool complete() const override { return map_.complete() && !map_.dead(); }
  bool verified() const override;
  base::Result<void> read(base::ByteRange range, std::span<std::byte> into) override;
  FillAnswer begin_fill(uint32_t block) override;
  base::Result<void> write_block(uint32_t block, std::span<const std::byte> data) override;
  void abandon_fill(uint32_t block) override;
  base::Result<bool> finish() override;
  std::unique_ptr<Pin> pin() override;
  base::Result<base::UniqueFd> backing_descriptor() override;

  const store::ObjectId& id() const { return map_.id(); }
  void note_use(int64_t ms);
  /// If it was used since the last call: tells the index and the map. Blocks on disk.
  void save_use();
  IndexRow row() const;
  enum class Checked { kGood, kBad, kAbsent };
  /// Compares the block on the disk with its checksum; a bad one is dropped. Blocks on disk.
  Checked check_block(uint32_t block, BlockReader& reader);

 private:
  class FilePin;

  base::ByteRange bytes_of(uint32_t block) const { return range_of_block(size_bytes(), block); }
  /// What a block costs that comes or goes. Nothing in a file that was complete: a bad block keeps its space.
  uint64_t charge_of(uint32_t block) const {
    return map_.was_complete() ? 0 : core_->charges.of_block(size_bytes(), block);
  }
  bool take_fill(uint32_t block);
  void drop_fill(uint32_t block);
  /// Nothing without the right to fill it.
  std::optional<uint64_t> reserved_for(uint32_t block);
  void set_reserved(uint32_t block, uint64_t bytes);
  /// Gives the fill right and its reservation back, and takes away what was written of the block.
  void undo_fill(uint32_t block, bool written);
  base::Result<void> read_verified(base::ByteRange range, std::span<std::byte> into);
  /// part: what is wanted of the block. Errors: those of read.
  base::Result<void> read_checked(uint32_t block, base::ByteRange part, std::span<std::byte> into);
  void mark_verified(uint32_t block, uint64_t seen_state);
  void drop_bad_block(uint32_t block, uint64_t seen_state, uint64_t seen_checksum);
  void give_up(const char* why, const base::Error& error);
  void unpin();

  const std::shared_ptr<Core> core_;
  const FileKey key_;
  base::UniqueFd data_fd_;  // constant until the destructor
  BlockWriter writer_;
  MapFile map_;
  mutable std::atomic<bool> all_verified_{false};  // once true it stays: what is written from then on is good
  std::atomic<int64_t> last_use_ms_;
  std::atomic<int64_t> saved_use_ms_;

  std::mutex fills_mutex_;
  // Guarded by fills_mutex_: the blocks that this mount has the right to fill, or asks for; what is reserved for each.
  std::map<uint32_t, uint64_t> fills_;
  std::mutex pins_mutex_;
  int pins_ = 0;  // guarded by pins_mutex_
};

}  // namespace shardfs::cache
