#include "cache/eviction.h"

#include <algorithm>
#include <numeric>

namespace shardfs::cache {
namespace {

class LeastRecentlyUsed final : public EvictionPolicy {
 public:
  void note_use(const store::ObjectId&, base::WallTime) override {}
  bool admits_whole_objects_only() const override { return false; }
  std::string set_of(const store::ObjectId&) const override { return {}; }
  std::vector<size_t> order(std::span<const Candidate> candidates, const store::ObjectId*, base::WallTime) override {
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return candidates[a].last_use < candidates[b].last_use; });
    return order;
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_least_recently_used() { return std::make_unique<LeastRecentlyUsed>(); }

}  // namespace shardfs::cache
