// MemoryBlocks: the blocks of one object that are in memory, and which of their pages have arrived.
// Not a budget and not a policy: it holds what it is given until it is told to drop it.
// Thread rule: confined to its SourceFile's lock. Owns the buffers, together with reads and writes in flight.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>

#include "base/buffer.h"
#include "base/byte_range.h"
#include "cache/cache.h"

namespace shardfs::fetch {

inline constexpr uint64_t kBlockBytes = cache::kBlockBytes;
/// What arrives is accounted for in pages. Source: the kernel asks for whole pages.
inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kPagesPerBlock = kBlockBytes / kPageBytes;

inline uint32_t block_of(uint64_t offset) { return static_cast<uint32_t>(offset / kBlockBytes); }

struct MemoryBlock {
  std::shared_ptr<base::Buffer> buffer;
  std::bitset<kPagesPerBlock> pages;  // arrived
  uint64_t served_bytes = 0;          // to readers, from memory
  bool full = false;
  bool writing = false;  // with the disk; must stay
  bool saved = false;    // also in the cache file
};

class MemoryBlocks {
 public:
  explicit MemoryBlocks(uint64_t object_bytes) : size_(object_bytes) {}

  base::ByteRange range_of(uint32_t block) const;
  MemoryBlock* find(uint32_t block);
  const MemoryBlock* find(uint32_t block) const;
  MemoryBlock& add(uint32_t block, std::shared_ptr<base::Buffer> buffer);
  void erase(uint32_t block);
  void clear();
  /// The cache file has it too.
  void mark_saved(uint32_t block);
  /// Those that would have to be fetched again.
  size_t unsaved_blocks() const { return unsaved_; }
  const std::map<uint32_t, MemoryBlock>& all() const { return blocks_; }

  /// Range within one block: has all of it arrived?
  bool has(uint32_t block, const base::ByteRange& range) const;
  /// Of the pages from `from` on, within its block: where the first one with `arrived` as asked for begins; the block's
  /// end if there is none. Requires: the block is in memory.
  uint64_t next_page(uint64_t from, bool arrived) const;
  /// Notes that [from, to) has arrived; from is page-aligned or was reached by an earlier call. A page counts when all
  /// of it is there (the object's last page may be short). True if the block is full now and was not before.
  bool mark(uint32_t block, uint64_t from, uint64_t to);

 private:
  const uint64_t size_;
  std::map<uint32_t, MemoryBlock> blocks_;
  size_t unsaved_ = 0;
};

}  // namespace shardfs::fetch
