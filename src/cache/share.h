// Share: keeps what lies in the cache of the objects below one mount's prefix within that mount's part of the limit.
// Counted by whole objects, as they enter: what is not there yet of a file counts, too. Its own files leave for its
// newcomers. Not the limit itself, which is the budget's.
// Thread rule: thread-safe; blocks on local I/O. One thread at a time lets files in.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "cache/core.h"
#include "cache/turn.h"

namespace shardfs::cache {

class Share {
 public:
  /// share: of the limit as it is at any moment.
  Share(Core& core, base::SizeOrPercent share, std::string key_prefix)
      : core_(core), share_(share), key_prefix_(std::move(key_prefix)) {}

  /// Makes room for a file that costs so much and counts it. False: it may not enter.
  bool enter(const store::ObjectId& newcomer, uint64_t bytes);
  /// It was not made after all.
  void leave(uint64_t bytes);

 private:
  bool bounded() const { return share_.percent < 0 || share_.percent < 100; }
  // All with the turn.
  bool is_of_it(const IndexRow& row, const store::ObjectId& newcomer) const;
  /// Other mounts evict its files, too.
  void count_again(const store::ObjectId& newcomer);
  void evict_down_to(uint64_t bytes, const store::ObjectId& newcomer);

  Core& core_;
  const base::SizeOrPercent share_;
  const std::string key_prefix_;
  Turn turn_;
  uint64_t bytes_ = 0;           // by turn_
  bool counted_ = false;         // by turn_
  base::SteadyTime counted_at_;  // by turn_
};

}  // namespace shardfs::cache
