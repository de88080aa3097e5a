// Memory for received bytes: one budget for the mount, and the block buffers that live within it.
// Not a cache: who keeps a buffer, and for how long, is decided in fetch.
// Thread rule: thread-safe. A Buffer owns its memory and its share of the budget until it is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace shardfs::base {

/// A hard limit of bytes. reserve, then release; there is no way to go above the limit.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit_bytes) : limit_(limit_bytes) {}
  /// All or nothing. keep_free_bytes: what must stay free after it (a reserve for more urgent callers).
  bool try_reserve(uint64_t bytes, uint64_t keep_free_bytes = 0);
  void release(uint64_t bytes);
  uint64_t limit_bytes() const { return limit_; }
  uint64_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> peak_{0};
};

class BufferPool;

/// `size` bytes, page-aligned. Contents are undefined when it is new.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }

 private:
  friend class BufferPool;
  Buffer(BufferPool& pool, std::byte* data, size_t size) : pool_(pool), data_(data), size_(size) {}
  BufferPool& pool_;
  std::byte* const data_;
  const size_t size_;
};

/// Buffers of one size, reused. The pool outlives its buffers. Up to a huge page more than is in use may be mapped.
class BufferPool {
 public:
  BufferPool(ByteBudget& budget, size_t buffer_bytes, size_t idle_limit);
  ~BufferPool();
  /// Null when the budget (see ByteBudget::try_reserve) or the system does not allow it.
  std::shared_ptr<Buffer> try_take(uint64_t keep_free_bytes = 0);
  /// For a caller that has already reserved buffer_bytes(): the reservation passes to the buffer.
  /// Null when the system has no memory; the reservation is released then.
  std::shared_ptr<Buffer> take_reserved();
  /// Gives the memory of buffers that wait for reuse back to the system.
  void release_idle();
  size_t buffer_bytes() const { return buffer_bytes_; }
  /// Of buffers that wait for reuse.
  uint64_t idle_bytes() const;
  ByteBudget& budget() { return budget_; }

 private:
  friend class Buffer;
  void give_back(std::byte* data);
  std::byte* take_memory();
  /// New memory, in huge pages where buffers fit into one; what is more than one buffer waits in idle_.
  std::byte* map_memory();
  void unmap(std::byte* data) const;

  ByteBudget& budget_;
  const size_t buffer_bytes_;
  const size_t idle_limit_;  // buffers kept for reuse; the rest goes back to the system
  mutable std::mutex mutex_;
  std::vector<std::byte*> idle_;
};

}  // namespace shardfs::base
