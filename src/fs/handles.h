// HandleTable: from the number that the kernel hands back to what is open under it.
// Not the owner of counts or routes. A number is never used twice: a stale one finds nothing.
// Thread rule: thread-safe; values are shared, so a close does not pull them from under a read.
#pragma once

#include <oneapi/tbb/concurrent_hash_map.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardfs::fs {

template <class T>
class HandleTable {
 public:
  uint64_t add(std::shared_ptr<T> value) {
    const uint64_t handle = next_.fetch_add(1, std::memory_order_relaxed);
    values_.emplace(handle, std::move(value));
    return handle;
  }

  /// Null for a number that is not in use.
  std::shared_ptr<T> find(uint64_t handle) const {
    typename Values::const_accessor found;
    return values_.find(found, handle) ? found->second : nullptr;
  }

  /// Null if it had been removed before.
  std::shared_ptr<T> remove(uint64_t handle) {
    typename Values::accessor found;
    if (!values_.find(found, handle)) return nullptr;
    auto value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  /// Requires: no other call meanwhile.
  std::vector<uint64_t> all() const {
    std::vector<uint64_t> handles;
    for (const auto& [handle, value] : values_) handles.push_back(handle);
    return handles;
  }

 private:
  using Values = tbb::concurrent_hash_map<uint64_t, std::shared_ptr<T>>;

  Values values_;
  std::atomic<uint64_t> next_{1};
};

}  // namespace shardfs::fs
