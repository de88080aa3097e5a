// NameIndex: finds a name in a long listing by hash, with two cache misses where a binary search has some thirty.
// Source: lookups among 100,000 names in random order took 7.8 us by halves and 3.6 us by hash, on a busy machine.
// Thread rule: immutable. It keeps its listing alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tree/tree.h"

namespace shardfs::tree {

class NameIndex {
 public:
  /// Listings with fewer names need none.
  static constexpr size_t kWorthwhile = 1000;

  /// Takes a while for a long listing: not to be called under a lock.
  explicit NameIndex(std::shared_ptr<const Listing> listing);
  /// Null if the name is not listed.
  const ListedName* find(std::string_view name) const;
  const std::shared_ptr<const Listing>& listing() const { return listing_; }

 private:
  struct Slot {
    uint32_t place = 0;  // in the listing, plus one; 0: free
    uint32_t tag = 0;    // the hash's upper half
  };

  const std::shared_ptr<const Listing> listing_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace shardfs::tree
