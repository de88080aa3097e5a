#include "fetch/part.h"

#include <algorithm>
#include <cstring>

#include "fetch/source_file.h"

namespace shardfs::fetch {

bool Part::on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const uint64_t end = offset_bytes + bytes.size();
  if (offset_bytes < range.begin || end > range.end) return false;
  const uint32_t first_block = block_of(range.begin);
  for (uint64_t at = offset_bytes; at < end;) {
    const uint32_t block = block_of(at);
    const uint64_t within = at - uint64_t{block} * kBlockBytes;
    const uint64_t count = std::min(end - at, kBlockBytes - within);
    std::memcpy(buffers[block - first_block]->data() + within, bytes.data() + (at - offset_bytes), count);
    at += count;
  }
  file->on_received(*this, end);
  return true;
}

}  // namespace shardfs::fetch
