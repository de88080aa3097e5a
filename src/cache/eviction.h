// EvictionPolicy: which cache file leaves first.
// Not whether it can leave: pinned and open files are passed over by the evictor.
// Thread rule: called by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "store/object.h"

namespace shardfs::cache {

struct Candidate {
  store::ObjectId id;
  uint64_t size_bytes = 0;
  base::WallTime last_use;
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  /// Indices of candidates, the first to leave first; those left out stay.
  virtual std::vector<size_t> order(std::span<const Candidate> candidates, base::WallTime now) = 0;
};

/// The least recently used first.
class LeastRecentlyUsed final : public EvictionPolicy {
 public:
  std::vector<size_t> order(std::span<const Candidate> candidates, base::WallTime now) override;
};

}  // namespace shardfs::cache
