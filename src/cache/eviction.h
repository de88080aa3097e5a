// EvictionPolicy: which cache files may leave so that another object can enter, and in which order.
// Not whether they can leave: pinned and open files are passed over by the evictor.
// Thread rule: thread-safe. A policy owns what it has learned of uses, within a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cache/cache.h"
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
  /// A reader opened the object, cached or not.
  virtual void note_use(const store::ObjectId& id, base::WallTime now) = 0;
  /// An object of which not all would find space is not begun.
  virtual bool admits_whole_objects_only() const = 0;
  /// Objects of one set are equal as newcomers: what one was refused, the others are refused too.
  virtual std::string set_of(const store::ObjectId& newcomer) const = 0;
  /// Indices of candidates, the first to leave first; those left out stay. newcomer: for whom; null: there is too much.
  virtual std::vector<size_t> order(std::span<const Candidate> candidates, const store::ObjectId* newcomer,
                                    base::WallTime now) = 0;
};

/// The least recently used first; all may leave for anybody. Gives no hit to a scan of more than the cache holds.
std::unique_ptr<EvictionPolicy> make_least_recently_used();

/// The latest next use first, and only if it is later than the newcomer's: docs/decisions/0011-eviction.md.
/// set_prefix: of the keys of this mount; the set of a key is this prefix and the name that follows it.
std::unique_ptr<EvictionPolicy> make_next_use(std::string set_prefix);

}  // namespace shardfs::cache
