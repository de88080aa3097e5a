#include "readahead/number_fronts.h"

#include <algorithm>

namespace shardfs::readahead {
namespace {

// How far two readers of one order may be apart, in shards. Source: workers are some batches apart; a fast one is a
// shard ahead of its turn now and then, not two.
uint32_t reach(uint32_t readers) { return readers + (readers + 1) / 2; }

}  // namespace

// Of two that fit, the one used last.
NumberFronts::Front* NumberFronts::front_of(const NameOrder& names, uint32_t place, uint32_t width) {
  Front* found = nullptr;
  for (auto& front : fronts_) {
    if (!front || front->at_end(names) || !names.same_series(front->last, place)) continue;
    if (place + width < front->next || place >= front->next + width) continue;
    if (found == nullptr || found->used < front->used) found = &*front;
  }
  return found;
}

NumberFronts::Front& NumberFronts::oldest() {
  for (auto& front : fronts_) {
    if (!front) return front.emplace(Front{});
  }
  return fronts_[0]->used < fronts_[1]->used ? *fronts_[0] : *fronts_[1];
}

NumberFronts::Step NumberFronts::on_step(const NameOrder& names, uint32_t place, uint32_t readers, bool seen,
                                         const Recent& recent) {
  ++steps_;
  if (seen) return Step::kNoOpinion;  // several readers share it
  const bool opinion =
      std::any_of(fronts_.begin(), fronts_.end(), [&](const auto& front) { return front && !front->at_end(names); });
  Step step = Step::kNoOpinion;
  Front* front = front_of(names, place, reach(readers));
  if (front != nullptr && place >= front->next) {
    step = Step::kExpected;
    // Who is further behind than that does not come any more.
    const uint32_t behind = reach(readers - 1);
    front->next = std::max(front->next, place + 1 > behind ? place + 1 - behind : 0);
  } else if (front == nullptr) {
    if (opinion && !names.starts_series(place)) step = Step::kUnexpected;
    front = &oldest();
    front->next = place + 1;
  }
  front->last = place;
  front->used = steps_;
  while (front->next < names.size() && recent(front->next)) ++front->next;
  current_ = fronts_[1] && front == &*fronts_[1] ? 1 : 0;
  return step;
}

std::vector<uint32_t> NumberFronts::next(const NameOrder& names, size_t count, const Recent& recent) const {
  std::vector<uint32_t> places;
  const auto& front = fronts_[current_];
  if (!front) return places;
  // What is recent lies within the reach of the readers; beyond it nothing is searched.
  uint32_t looked_at = 0;
  for (uint32_t place = front->next; place < names.size() && places.size() < count; ++place) {
    if (!names.same_series(front->last, place) || ++looked_at > 64 + count) break;
    if (!recent(place)) places.push_back(place);
  }
  return places;
}

void NumberFronts::move_to(const NameOrder& before, const NameOrder& now) {
  for (auto& front : fronts_) {
    if (!front) continue;
    const auto last = now.find(before.name(front->last));
    if (!last) {
      front.reset();
      continue;
    }
    // At the end of a series that has grown it goes on.
    front->next = front->at_end(before) ? *last + 1 : now.lower_bound(before.name(front->next));
    front->last = *last;
  }
}

}  // namespace shardfs::readahead
