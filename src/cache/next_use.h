// NextUse: the eviction policy that estimates when each file will be used next.
// Not an index: it remembers when objects were used, to learn how long a set takes to come round, and forgets the rest.
// Thread rule: thread-safe. See docs/decisions/0011-eviction.md.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cache/eviction.h"

namespace shardfs::cache {

class NextUse final : public EvictionPolicy {
 public:
  explicit NextUse(std::string set_prefix) : set_prefix_(std::move(set_prefix)) {}
  void note_use(const store::ObjectId& id, base::WallTime now) override;
  /// A part of a file can't be passed through, and of a scan it is written for little.
  bool admits_whole_objects_only() const override { return true; }
  std::string set_of(const store::ObjectId& newcomer) const override;
  std::vector<size_t> order(std::span<const Candidate> candidates, const store::ObjectId* newcomer,
                            base::WallTime now) override;

 private:
  using Duration = base::WallTime::duration;
  /// What is known of one set, by the uses that this mount has seen.
  struct Set {
    // The last run of objects that had not been seen before: a scan takes at least as long.
    base::WallTime run_begin;
    base::WallTime run_end;
    int64_t run_objects = 0;
    Duration longest{0};        // between two uses of one object, of late; 0: none was used twice
    base::WallTime longest_at;  // when it was seen
    Duration interval() const { return std::max(longest, run_end - run_begin); }
    bool repeats() const { return longest > Duration::zero(); }
    void note_new_object(base::WallTime now);
    void note_interval(Duration seen, base::WallTime now);
  };
  const Set* find(const store::ObjectId& id) const;

  const std::string set_prefix_;
  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<std::string, Set> sets_;
  std::unordered_map<uint64_t, base::WallTime> last_uses_;  // by the object's hash
};

}  // namespace shardfs::cache
