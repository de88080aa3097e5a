#include "base/buffer.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <set>
#include <thread>

namespace shardfs::base {
namespace {

constexpr size_t kBytes = 64 << 10;

TEST_CASE("a budget is all or nothing up to its limit") {
  ByteBudget budget(100);
  CHECK(budget.try_reserve(60));
  CHECK_FALSE(budget.try_reserve(41));
  CHECK(budget.try_reserve(40));
  CHECK_FALSE(budget.try_reserve(1));
  CHECK(budget.try_reserve(0));
  CHECK(budget.used_bytes() == 100);
  budget.release(100);
  CHECK(budget.used_bytes() == 0);
  CHECK(budget.peak_bytes() == 100);
  CHECK(budget.limit_bytes() == 100);
}

TEST_CASE("what must stay free is for more urgent callers") {
  ByteBudget budget(100);
  CHECK_FALSE(budget.try_reserve(81, 20));
  CHECK(budget.try_reserve(80, 20));
  CHECK_FALSE(budget.try_reserve(1, 20));
  CHECK(budget.try_reserve(20));
}

TEST_CASE("a budget does not wrap around") {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  ByteBudget budget(100);
  CHECK(budget.try_reserve(50));
  CHECK_FALSE(budget.try_reserve(kMost));
  CHECK_FALSE(budget.try_reserve(kMost - 10));
  CHECK_FALSE(budget.try_reserve(10, kMost));
  CHECK_FALSE(budget.try_reserve(kMost, kMost));
  CHECK(budget.used_bytes() == 50);
  ByteBudget none(0);
  CHECK(none.try_reserve(0));
  CHECK_FALSE(none.try_reserve(1));
}

TEST_CASE("threads together never hold more than the limit, and all comes back") {
  constexpr uint64_t kLimit = 1000;
  ByteBudget budget(kLimit);
  std::atomic<uint64_t> held{0};
  std::atomic<bool> above{false};
  std::atomic<uint64_t> granted{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t n = 0; n < 5000; ++n) {
        const uint64_t bytes = 1 + (n * 37 + t * 101) % 600;
        if (!budget.try_reserve(bytes)) continue;
        if (held.fetch_add(bytes) + bytes > kLimit) above = true;
        ++granted;
        held.fetch_sub(bytes);
        budget.release(bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(above);
  CHECK(granted > 0);
  CHECK(budget.used_bytes() == 0);
  CHECK(budget.peak_bytes() > 0);
  CHECK(budget.peak_bytes() <= kLimit);
}

TEST_CASE("a buffer is page-aligned, writable and holds its share of the budget") {
  ByteBudget budget(2 * kBytes);
  BufferPool pool(budget, kBytes, 1);
  {
    const auto first = pool.try_take();
    const auto second = pool.try_take();
    REQUIRE(first);
    REQUIRE(second);
    CHECK_FALSE(pool.try_take());
    CHECK(first->size() == kBytes);
    CHECK(first->span().size() == kBytes);
    CHECK(reinterpret_cast<uintptr_t>(first->data()) % static_cast<uintptr_t>(::getpagesize()) == 0);
    std::memset(first->data(), 1, kBytes);
    std::memset(second->data(), 2, kBytes);
    CHECK(first->data()[kBytes - 1] == std::byte{1});
    CHECK(second->data()[0] == std::byte{2});
    CHECK(budget.used_bytes() == 2 * kBytes);
    const auto shared = first;
    CHECK(budget.used_bytes() == 2 * kBytes);
  }
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("try_take leaves what must stay free") {
  ByteBudget budget(2 * kBytes);
  BufferPool pool(budget, kBytes, 0);
  const auto first = pool.try_take(kBytes);
  CHECK(first);
  CHECK_FALSE(pool.try_take(kBytes));
  CHECK(pool.try_take());
}

TEST_CASE("a reservation passes to the buffer") {
  ByteBudget budget(kBytes);
  BufferPool pool(budget, kBytes, 1);
  REQUIRE(budget.try_reserve(pool.buffer_bytes()));
  auto buffer = pool.take_reserved();
  REQUIRE(buffer);
  CHECK(budget.used_bytes() == kBytes);
  buffer.reset();
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("idle memory is reused") {
  ByteBudget budget(4 * kBytes);
  BufferPool pool(budget, kBytes, 1);
  auto buffer = pool.try_take();
  const std::byte* const memory = buffer->data();
  buffer.reset();
  CHECK(pool.try_take()->data() == memory);
}

TEST_CASE("memory above the idle limit goes back to the system") {
  ByteBudget budget(4 * kBytes);
  BufferPool pool(budget, kBytes, 1);
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int n = 0; n < 4; ++n) buffers.push_back(pool.try_take());
  std::vector<std::byte*> memory;
  for (const auto& buffer : buffers) {
    memory.push_back(buffer->data());
    CHECK(::msync(buffer->data(), kBytes, MS_ASYNC) == 0);  // ENOMEM: not mapped
  }
  buffers.clear();
  size_t mapped = 0;
  for (std::byte* data : memory) mapped += ::msync(data, kBytes, MS_ASYNC) == 0 ? 1 : 0;
  CHECK(mapped == 1);
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("memory that the system does not have is a refusal, and the reservation comes back") {
  constexpr size_t kTooMuch = size_t{1} << 62;
  ByteBudget budget(std::numeric_limits<uint64_t>::max());
  BufferPool pool(budget, kTooMuch, 0);
  CHECK_FALSE(pool.try_take());
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("threads take and give back, each with its own memory") {
  constexpr size_t kSmall = 4096;
  ByteBudget budget(6 * kSmall);
  BufferPool pool(budget, kSmall, 2);
  std::atomic<bool> mixed{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; n < 500; ++n) {
        const auto buffer = pool.try_take();
        if (!buffer) continue;
        std::memset(buffer->data(), t, kSmall);
        for (const std::byte byte : buffer->span()) {
          if (byte != static_cast<std::byte>(t)) mixed = true;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(mixed);
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("buffers that fit into a huge page lie in one, each its own") {
  constexpr size_t kMiB = 1 << 20;
  ByteBudget budget(8 * kMiB);
  BufferPool pool(budget, kMiB, 8);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::set<std::byte*> places;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(pool.try_take());
    REQUIRE(buffers.back());
    std::memset(buffers.back()->data(), i, kMiB);
    places.insert(buffers.back()->data());
  }
  CHECK_FALSE(pool.try_take());
  CHECK(places.size() == 8);
  for (size_t i = 0; i < 8; i += 2) {
    const auto a = reinterpret_cast<uintptr_t>(buffers[i]->data()),
               b = reinterpret_cast<uintptr_t>(buffers[i + 1]->data());
    CHECK(a / (2 * kMiB) == b / (2 * kMiB));
    CHECK(buffers[i]->data()[kMiB - 1] == std::byte(i));
    CHECK(buffers[i + 1]->data()[0] == std::byte(i + 1));
  }
  buffers.clear();
  pool.release_idle();
  for (std::byte* data : places) CHECK(::msync(data, kMiB, MS_ASYNC) != 0);  // ENOMEM: not mapped
}

}  // namespace
}  // namespace shardfs::base
