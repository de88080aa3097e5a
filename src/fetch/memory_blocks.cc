#include "fetch/memory_blocks.h"

#include <algorithm>
#include <utility>

namespace shardfs::fetch {

base::ByteRange MemoryBlocks::range_of(uint32_t block) const {
  const uint64_t begin = uint64_t{block} * kBlockBytes;
  return {begin, std::min(size_, begin + kBlockBytes)};
}

MemoryBlock* MemoryBlocks::find(uint32_t block) {
  const auto it = blocks_.find(block);
  return it == blocks_.end() ? nullptr : &it->second;
}

const MemoryBlock* MemoryBlocks::find(uint32_t block) const {
  const auto it = blocks_.find(block);
  return it == blocks_.end() ? nullptr : &it->second;
}

MemoryBlock& MemoryBlocks::add(uint32_t block, std::shared_ptr<base::Buffer> buffer) {
  erase(block);
  MemoryBlock& added = blocks_[block];
  added.buffer = std::move(buffer);
  ++unsaved_;
  return added;
}

void MemoryBlocks::erase(uint32_t block) {
  const auto it = blocks_.find(block);
  if (it == blocks_.end()) return;
  if (!it->second.saved) --unsaved_;
  blocks_.erase(it);
}

void MemoryBlocks::clear() {
  blocks_.clear();
  unsaved_ = 0;
}

void MemoryBlocks::mark_saved(uint32_t block) {
  MemoryBlock& found = blocks_.at(block);
  if (!found.saved) --unsaved_;
  found.saved = true;
}

bool MemoryBlocks::has(uint32_t block, const base::ByteRange& range) const {
  const MemoryBlock* found = find(block);
  if (!found) return false;
  return found->full || next_page(range.begin, false) >= range.end;
}

uint64_t MemoryBlocks::next_page(uint64_t from, bool arrived) const {
  const uint32_t block = block_of(from);
  const MemoryBlock& found = blocks_.at(block);
  const base::ByteRange whole = range_of(block);
  for (uint64_t at = from; at < whole.end; at = base::align_down(at, kPageBytes) + kPageBytes) {
    if (found.pages[(at - whole.begin) / kPageBytes] == arrived) return at;
  }
  return whole.end;
}

bool MemoryBlocks::mark(uint32_t block, uint64_t from, uint64_t to) {
  MemoryBlock& found = blocks_.at(block);
  const base::ByteRange whole = range_of(block);
  const uint64_t first = (base::align_down(from, kPageBytes) - whole.begin) / kPageBytes;
  const uint64_t last = to >= whole.end ? (whole.size() + kPageBytes - 1) / kPageBytes
                                        : (base::align_down(to, kPageBytes) - whole.begin) / kPageBytes;
  for (uint64_t page = first; page < last; ++page) found.pages.set(page);
  if (found.full || found.pages.count() < (whole.size() + kPageBytes - 1) / kPageBytes) return false;
  found.full = true;
  return true;
}

}  // namespace shardfs::fetch
