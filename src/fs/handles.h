// HandleTable: from the number that the kernel hands back to what is open under it, in constant time.
// Not the owner of counts or routes. A number is never used twice: a stale one finds nothing.
// Thread rule: thread-safe; values are shared, so a close does not pull them from under a read.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace shardfs::fs {

template <class T>
class HandleTable {
 public:
  uint64_t add(std::shared_ptr<T> value) {
    std::unique_lock lock(mutex_);
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.value = std::move(value);
    return number(index, slot.generation);
  }

  /// Null for a number that is not in use.
  std::shared_ptr<T> find(uint64_t handle) const {
    std::shared_lock lock(mutex_);
    const uint64_t index = index_of(handle);
    return index < slots_.size() ? slots_[index].value : nullptr;
  }

  /// Null if it had been removed before.
  std::shared_ptr<T> remove(uint64_t handle) {
    std::unique_lock lock(mutex_);
    const uint64_t index = index_of(handle);
    if (index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    ++slot.generation;
    free_.push_back(static_cast<uint32_t>(index));
    return std::move(slot.value);
  }

  std::vector<uint64_t> all() const {
    std::shared_lock lock(mutex_);
    std::vector<uint64_t> handles;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].value) handles.push_back(number(static_cast<uint32_t>(i), slots_[i].generation));
    }
    return handles;
  }

 private:
  struct Slot {
    std::shared_ptr<T> value;
    uint32_t generation = 1;
  };
  static uint64_t number(uint32_t index, uint32_t generation) { return uint64_t{generation} << 32 | index; }
  /// The slot of a number in use, else slots_.size().
  uint64_t index_of(uint64_t handle) const {
    const uint64_t index = handle & 0xffffffff;
    const bool live = index < slots_.size() && slots_[index].value && slots_[index].generation == handle >> 32;
    return live ? index : slots_.size();
  }

  mutable std::shared_mutex mutex_;  // guards all below
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace shardfs::fs
