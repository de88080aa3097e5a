// Generated content: bytes that a server can make and a test can check at any offset without holding them.
// Byte i of the content with seed s is byte i % 8, little endian, of splitmix64(s + i / 8).
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shardfs::teststore {

/// One step of Vigna's splitmix64 with x as the state.
constexpr uint64_t splitmix64(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Fills `out` with the content of `seed` from `offset_bytes` on.
void generate(uint64_t seed, uint64_t offset_bytes, std::span<std::byte> out);

/// The content in [begin_bytes, end_bytes) as a string, for tests.
std::string generated(uint64_t seed, uint64_t begin_bytes, uint64_t end_bytes);

}  // namespace shardfs::teststore
