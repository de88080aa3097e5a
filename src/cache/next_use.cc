#include "cache/next_use.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cache/naming.h"

namespace shardfs::cache {
namespace {

// Objects whose last use is remembered. Source: 4 MiB; of a set with more, a part shows its interval as well.
constexpr size_t kUsesLimit = 100000;
// Sets that are remembered. Source: a job scans a handful; beyond it the folder's names are no sets.
constexpr size_t kSetsLimit = 4096;
// An interval that was not seen again for so many of itself is replaced by a shorter one.
constexpr int kIntervalsKept = 4;
// A set's files that were not used for so many of its intervals are not used any more. Source: the design, section 5.
constexpr int kOverdueIntervals = 2;
// So many objects make a run, and so many times their mean distance is a pause that ends it.
constexpr int64_t kRunObjects = 4;

}  // namespace

std::string NextUse::set_of(const store::ObjectId& id) const {
  const std::string_view key = id.key;
  const size_t below = key.starts_with(set_prefix_) ? set_prefix_.size() : 0;
  const size_t slash = key.find('/', below);
  const auto folder = slash == std::string_view::npos ? key.substr(0, below) : key.substr(0, slash);
  return id.endpoint + '\n' + id.bucket + '\n' + std::string(folder);
}

void NextUse::Set::note_new_object(base::WallTime now) {
  const Duration run = run_end - run_begin;
  const Duration pause = now - run_end;
  // Not the same scan any more.
  if (run_objects >= kRunObjects && pause > std::max(run / 2, kRunObjects * run / (run_objects - 1))) {
    run_begin = now;
    run_objects = 0;
  }
  run_end = now;
  ++run_objects;
}

void NextUse::Set::note_interval(Duration seen, base::WallTime now) {
  if (seen < longest && now - longest_at < kIntervalsKept * longest) return;
  longest = seen;
  longest_at = now;
}

void NextUse::note_use(const store::ObjectId& id, base::WallTime now) {
  auto name = set_of(id);
  const uint64_t hash = hash_of(id, 0).high;
  const std::lock_guard guard(mutex_);
  if (sets_.size() >= kSetsLimit && !sets_.contains(name)) return;
  Set& set = sets_.try_emplace(std::move(name), Set{.run_begin = now, .run_end = now, .longest_at = now}).first->second;
  const auto [last, is_new] = last_uses_.try_emplace(hash, now);
  if (!is_new) {
    set.note_interval(now - std::exchange(last->second, now), now);
    return;
  }
  set.note_new_object(now);
  if (last_uses_.size() > kUsesLimit) {
    last_uses_.erase(last == last_uses_.begin() ? std::next(last) : last_uses_.begin());
  }
}

const NextUse::Set* NextUse::find(const store::ObjectId& id) const {
  const auto place = sets_.find(set_of(id));
  return place == sets_.end() ? nullptr : &place->second;
}

std::vector<size_t> NextUse::order(std::span<const Candidate> candidates, const store::ObjectId* newcomer,
                                   base::WallTime now) {
  const std::lock_guard guard(mutex_);
  const Set* const entering = newcomer == nullptr ? nullptr : find(*newcomer);
  const base::WallTime bound = now + (entering == nullptr ? Duration::zero() : entering->interval());
  struct Victim {
    size_t index;
    bool dead;  // its set does not use it any more
    base::WallTime when;
  };
  std::vector<Victim> victims;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const base::WallTime last_use = candidates[i].last_use;
    const Duration age = now - last_use;
    const Set* const set = find(candidates[i].id);
    if (set != nullptr && set->repeats() && age > kOverdueIntervals * set->interval()) {
      victims.push_back({i, true, last_use});
      continue;
    }
    // Of a set that nobody here uses: it is expected again after as long as it was not used.
    const base::WallTime next = set == nullptr ? now + age : last_use + set->interval();
    if (newcomer != nullptr) {
      // Of a set of which nothing was read twice, nobody knows that it will be.
      const bool known_to_return = set != nullptr && set->repeats();
      if (known_to_return && (entering == nullptr || !entering->repeats())) continue;
      if (next <= bound) continue;
    }
    victims.push_back({i, false, next});
  }
  std::stable_sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) {
    if (a.dead != b.dead) return a.dead;
    return a.dead ? a.when < b.when : a.when > b.when;
  });
  std::vector<size_t> order;
  order.reserve(victims.size());
  for (const Victim& victim : victims) order.push_back(victim.index);
  return order;
}

std::unique_ptr<EvictionPolicy> make_next_use(std::string set_prefix) {
  return std::make_unique<NextUse>(std::move(set_prefix));
}

}  // namespace shardfs::cache
