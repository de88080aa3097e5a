#include "base/buffer.h"

#include <sys/mman.h>

#include <cassert>

// An idle buffer that is still in use somewhere shows up under the address sanitizer, although its memory is mapped.
#if defined(__SANITIZE_ADDRESS__)
#define SHARDFS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHARDFS_ASAN 1
#endif
#endif
#ifdef SHARDFS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) (static_cast<void>(0))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) (static_cast<void>(0))
#endif

namespace shardfs::base {
namespace {

// Source: x86_64 and arm64 with 4 KiB pages. The first use of a gigabyte in single pages costs 0.5 s of processor time.
constexpr size_t kHugePageBytes = 2 << 20;

}  // namespace

bool ByteBudget::try_reserve(uint64_t bytes, uint64_t keep_free_bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    const uint64_t free = limit_ - used;
    if (bytes > free || keep_free_bytes > free - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < used + bytes && !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void ByteBudget::release(uint64_t bytes) {
  [[maybe_unused]] const uint64_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  assert(before >= bytes);
}

Buffer::~Buffer() { pool_.give_back(data_); }

BufferPool::BufferPool(ByteBudget& budget, size_t buffer_bytes, size_t idle_limit)
    : budget_(budget), buffer_bytes_(buffer_bytes), idle_limit_(idle_limit) {}

BufferPool::~BufferPool() {
  for (std::byte* data : idle_) unmap(data);
}

std::shared_ptr<Buffer> BufferPool::try_take(uint64_t keep_free_bytes) {
  if (!budget_.try_reserve(buffer_bytes_, keep_free_bytes)) return nullptr;
  return take_reserved();
}

std::shared_ptr<Buffer> BufferPool::take_reserved() {
  std::byte* const data = take_memory();
  if (data == nullptr) {
    budget_.release(buffer_bytes_);
    return nullptr;
  }
  return std::shared_ptr<Buffer>(new Buffer(*this, data, buffer_bytes_));
}

std::byte* BufferPool::take_memory() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::byte* const data = idle_.back();
      idle_.pop_back();
      ASAN_UNPOISON_MEMORY_REGION(data, buffer_bytes_);
      return data;
    }
  }
  return map_memory();
}

std::byte* BufferPool::map_memory() {
  const bool huge = buffer_bytes_ < kHugePageBytes && kHugePageBytes % buffer_bytes_ == 0 &&
                    idle_limit_ >= kHugePageBytes / buffer_bytes_;
  const size_t bytes = huge ? 2 * kHugePageBytes : buffer_bytes_;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  if (!huge) return begin;
  // Of twice the bytes, the huge page that lies within is kept.
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  std::byte* const data = begin + before;
  if (before > 0) ::munmap(begin, before);
  ::munmap(data + kHugePageBytes, kHugePageBytes - before);
  ::madvise(data, kHugePageBytes, MADV_HUGEPAGE);  // without the right to it: goes without
  std::lock_guard lock(mutex_);
  for (size_t at = buffer_bytes_; at < kHugePageBytes; at += buffer_bytes_) {
    ASAN_POISON_MEMORY_REGION(data + at, buffer_bytes_);
    idle_.push_back(data + at);
  }
  return data;
}

void BufferPool::give_back(std::byte* data) {
  {
    std::lock_guard lock(mutex_);
    if (idle_.size() < idle_limit_) {
      ASAN_POISON_MEMORY_REGION(data, buffer_bytes_);
      idle_.push_back(data);
      data = nullptr;
    }
  }
  if (data != nullptr) unmap(data);
  budget_.release(buffer_bytes_);
}

uint64_t BufferPool::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_.size() * buffer_bytes_;
}

void BufferPool::release_idle() {
  std::vector<std::byte*> idle;
  {
    std::lock_guard lock(mutex_);
    idle.swap(idle_);
  }
  for (std::byte* data : idle) unmap(data);
}

void BufferPool::unmap(std::byte* data) const {
  ASAN_UNPOISON_MEMORY_REGION(data, buffer_bytes_);
  ::munmap(data, buffer_bytes_);
}

}  // namespace shardfs::base
