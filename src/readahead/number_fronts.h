// NumberFronts: where the readers of a directory stand in the order of its names, all of them together: with 0, 1, 2, 3
// open by four readers, the front is at 4. Two fronts, so that a stray open (or a second set of shards in the
// directory) does not lose the first. Not the stride of one reader. Thread rule: thread-compatible. Pure. Refers to the
// NameOrder it is called with by place, see move_to().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "readahead/name_order.h"

namespace shardfs::readahead {

class NumberFronts {
 public:
  using Recent = std::function<bool(uint32_t place)>;  // opened a moment ago, this open included
  enum class Step { kExpected, kUnexpected, kNoOpinion };
  /// readers: open shards, this one included. seen: it was recent even before this open.
  Step on_step(const NameOrder& names, uint32_t place, uint32_t readers, bool seen, const Recent& recent);
  /// At most count places that come next at the front of the last step; none that is recent.
  std::vector<uint32_t> next(const NameOrder& names, size_t count, const Recent& recent) const;
  /// The names changed: each front goes to the place that its name has now.
  void move_to(const NameOrder& before, const NameOrder& now);

 private:
  struct Front {
    uint32_t last = 0;  // the place opened last
    uint32_t next = 0;  // before it, all were opened or passed
    uint64_t used = 0;
    bool at_end(const NameOrder& names) const { return next >= names.size() || !names.same_series(last, next); }
  };
  Front* front_of(const NameOrder& names, uint32_t place, uint32_t width);
  Front& oldest();

  std::array<std::optional<Front>, 2> fronts_;
  size_t current_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace shardfs::readahead
