#include "teststore/generate.h"

#include <bit>
#include <cstring>

namespace shardfs::teststore {

static_assert(std::endian::native == std::endian::little, "the words are written as they lie in memory");

void generate(uint64_t seed, uint64_t offset_bytes, std::span<std::byte> out) {
  uint64_t word = seed + offset_bytes / 8;
  std::byte* to = out.data();
  size_t left = out.size();
  if (const size_t skip = offset_bytes % 8; skip != 0 && left > 0) {
    const uint64_t value = splitmix64(word++);
    const size_t n = std::min<size_t>(8 - skip, left);
    std::memcpy(to, reinterpret_cast<const char*>(&value) + skip, n);
    to += n;
    left -= n;
  }
  for (; left >= 8; to += 8, left -= 8) {
    const uint64_t value = splitmix64(word++);
    std::memcpy(to, &value, 8);
  }
  if (left > 0) {
    const uint64_t value = splitmix64(word);
    std::memcpy(to, &value, left);
  }
}

std::string generated(uint64_t seed, uint64_t begin_bytes, uint64_t end_bytes) {
  std::string bytes(end_bytes - begin_bytes, '\0');
  teststore::generate(seed, begin_bytes, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace shardfs::teststore
