#include "fetch/part.h"

#include <algorithm>
#include <cstring>

#include "fetch/source_file.h"

namespace shardfs::fetch {

bool Leg::on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  SourceFileImpl::Arrival arrival;
  {
    std::lock_guard turn(part->turn);
    if (part->winner != nullptr && part->winner != this) return false;
    const uint64_t end = offset_bytes + bytes.size();
    if (offset_bytes < begin || end > part->range.end) return false;
    const uint64_t known = part->progress;
    const uint32_t first_block = block_of(part->range.begin);
    for (uint64_t at = std::max(offset_bytes, known); at < end;) {
      const uint32_t block = block_of(at);
      const uint64_t within = at - uint64_t{block} * kBlockBytes;
      const uint64_t count = std::min(end - at, kBlockBytes - within);
      std::memcpy(part->buffers[block - first_block]->data() + within, bytes.data() + (at - offset_bytes), count);
      at += count;
    }
    // The first answer wins; of two that go on, the second when it is ahead.
    const bool wins =
        part->contested && part->winner == nullptr && end > known && (second || known == part->range.begin);
    if (wins) part->winner = this;
    arrival = part->file->on_received(*this, end, wins);
  }
  part->file->take_in(std::move(arrival));
  return true;
}

base::ByteRange Part::left() const {
  return {std::max(range.begin, base::align_down(progress, kPageBytes)), range.end};
}

void Part::add_requests(std::vector<store::RequestHandle>& to) const {
  for (const auto& leg : legs)
    if (leg->request) to.push_back(leg->request);
}

void Part::give_up_legs(std::vector<store::RequestHandle>& to, const Leg* but) {
  for (const auto& leg : legs) {
    if (leg.get() == but) continue;
    leg->unwanted = true;
    if (leg->request) to.push_back(leg->request);
  }
}

}  // namespace shardfs::fetch
