// Charges: what a cache file costs of the limit. A fixed rule and not a measurement, so that all mounts agree on a
// file's cost at every moment without a lock for it; never less than what the file system allocates.
// Thread rule: plain values.
#pragma once

#include <cstdint>

#include "base/byte_range.h"
#include "cache/cache.h"
#include "cache/map_file.h"

namespace shardfs::cache {

struct Charges {
  /// What one byte in a sparse file occupies on this file system.
  uint64_t unit_bytes = 4096;

  /// The two names in a directory. Source: ext4 needs 8 bytes and the name, rounded to 4, in blocks two thirds full.
  static constexpr uint64_t kNameBytes = 128;
  /// Source: ext4 counts the tree of a file's extents; one 4 KiB node holds 340, so a block may be in 2.6 pieces.
  static constexpr uint64_t kBlocksPerExtentNode = 128;

  uint64_t of_bytes(uint64_t bytes) const { return base::align_up(bytes, unit_bytes); }
  uint64_t of_block(uint64_t size_bytes, uint32_t block) const {
    return of_bytes(range_of_block(size_bytes, block).size());
  }
  /// All blocks of an object.
  uint64_t of_blocks(uint64_t size_bytes) const {
    const uint32_t count = block_count_of(size_bytes);
    return (count - 1) * of_bytes(kBlockBytes) + of_block(size_bytes, count - 1);
  }
  /// What the file costs before it has a block.
  uint64_t of_empty_file(uint64_t map_bytes, uint32_t block_count) const {
    const uint64_t extents = block_count > 1 ? unit_bytes * (1 + block_count / kBlocksPerExtentNode) : 0;
    return of_bytes(map_bytes) + extents + kNameBytes;
  }
  /// All of it: its map, its names and all blocks.
  uint64_t of_object(const store::ObjectId& id, uint64_t size_bytes) const {
    return of_blocks(size_bytes) + of_empty_file(MapFile::image_bytes(id, size_bytes), block_count_of(size_bytes));
  }
};

}  // namespace shardfs::cache
