#include "teststore/generate.h"

#include <doctest/doctest.h>

#include <random>

namespace shardfs::teststore {
namespace {

char byte_at(uint64_t seed, uint64_t i) { return static_cast<char>(splitmix64(seed + i / 8) >> (i % 8 * 8)); }

TEST_CASE("splitmix64 gives the numbers of its author's program") {
  CHECK(splitmix64(0) == 0xE220A8397B1DCDAFULL);
  CHECK(splitmix64(0x9E3779B97F4A7C15ULL) == 0x6E789E6AA1B965F4ULL);
}

TEST_CASE("generated content is the same from whatever offset it is made") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t seed = random();
    const uint64_t begin = random() >> (round % 60);
    const uint64_t size = random() % 300;
    const std::string bytes = generated(seed, begin, begin + size);
    REQUIRE(bytes.size() == size);
    for (uint64_t i = 0; i < size; ++i) REQUIRE(bytes[i] == byte_at(seed, begin + i));
  }
}

}  // namespace
}  // namespace shardfs::teststore
