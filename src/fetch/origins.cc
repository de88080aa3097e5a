#include "fetch/origins.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fetch/memory_blocks.h"

namespace shardfs::fetch {
namespace {

// Larger objects are not followed: half a megabyte each at most.
constexpr uint32_t kMostBlocks = 1 << 16;
// Source: an image folder whose files are all fetched ahead; 32 bytes each or so.
constexpr size_t kMostUnreadFiles = 1 << 16;

}  // namespace

OriginMetrics::OriginMetrics(base::Metrics& metrics) : read_kept(metrics.counter("fetch_read_bytes", "cache")) {
  for (const Cause cause : kAllCauses) {
    received[index_of(cause)] = &metrics.counter("fetch_received_bytes", name_of(cause));
    used[index_of(cause)] = &metrics.counter("fetch_used_bytes", name_of(cause));
    read[index_of(cause)] = &metrics.counter("fetch_read_bytes", name_of(cause));
  }
}

Origins::Block* Origins::find(uint32_t block) {
  if (block >= kMostBlocks) return nullptr;
  if (block >= blocks_.size()) blocks_.resize(block + 1);
  return &blocks_[block];
}

void Origins::begin(uint32_t block, Cause cause) {
  Block* const found = find(block);
  if (!found) return;
  *found = Block{};
  found->origin = static_cast<uint8_t>(index_of(cause) + 1);
}

void Origins::received(uint32_t block, Cause cause, uint64_t bytes) {
  metrics_.received[index_of(cause)]->add(bytes);
  if (cause == Cause::kDemand) return;
  Block* const found = find(block);
  if (!found || found->read_bytes > 0) {
    metrics_.used[index_of(cause)]->add(bytes);
    return;
  }
  if (found->ahead_bytes == 0) found->ahead_cause = cause;
  found->ahead_bytes = static_cast<uint32_t>(std::min(found->ahead_bytes + bytes, kBlockBytes));
}

void Origins::use(Block& block) {
  if (block.ahead_bytes > 0) metrics_.used[index_of(block.ahead_cause)]->add(block.ahead_bytes);
  block.ahead_bytes = 0;
}

void Origins::use_carried() {
  if (!std::exchange(carried_read_, true) && carried_.bytes > 0)
    metrics_.used[index_of(carried_.cause)]->add(carried_.bytes);
}

void Origins::read(uint32_t block, uint64_t bytes) {
  Block* const found = find(block);
  if (!found) return metrics_.read_kept.add(bytes);
  const uint64_t begin = uint64_t{block} * kBlockBytes;
  const uint64_t whole = std::min(size_ - begin, kBlockBytes);
  const bool carried = found->origin == 0 && carried_.bytes > 0;
  if (carried) use_carried();
  use(*found);
  const uint64_t first = std::min(bytes, whole - found->read_bytes);
  found->read_bytes += static_cast<uint32_t>(first);
  if (found->origin == 0 && !carried) return metrics_.read_kept.add(bytes);
  const size_t origin = carried ? index_of(carried_.cause) : found->origin - 1u;
  metrics_.read[origin]->add(first);
  metrics_.read_kept.add(bytes - first);
}

void Origins::read_all() {
  use_carried();
  for (uint32_t block = 0; block < blocks_.size(); ++block) {
    use(blocks_[block]);
    blocks_[block].read_bytes = static_cast<uint32_t>(std::min(size_ - uint64_t{block} * kBlockBytes, kBlockBytes));
  }
}

std::optional<Unread> Origins::unread() const {
  Unread unread;
  if (!carried_read_) unread = carried_;
  for (const Block& block : blocks_) {
    if (block.ahead_bytes == 0) continue;
    unread.cause = block.ahead_cause;
    unread.bytes += block.ahead_bytes;
  }
  if (unread.bytes == 0) return std::nullopt;
  return unread;
}

void UnreadFiles::put(const std::string& name, Unread unread) {
  std::lock_guard lock(mutex_);
  if (files_.size() < kMostUnreadFiles) files_[std::hash<std::string>()(name)] = unread;
}

std::optional<Unread> UnreadFiles::take(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto place = files_.find(std::hash<std::string>()(name));
  if (place == files_.end()) return std::nullopt;
  const Unread unread = place->second;
  files_.erase(place);
  return unread;
}

}  // namespace shardfs::fetch
