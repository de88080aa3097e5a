#include "cache/eviction.h"

#include <algorithm>
#include <numeric>

namespace shardfs::cache {

std::vector<size_t> LeastRecentlyUsed::order(std::span<const Candidate> candidates, base::WallTime) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return candidates[a].last_use < candidates[b].last_use; });
  return order;
}

}  // namespace shardfs::cache
