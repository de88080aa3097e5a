// What is wanted before it is asked for: prefetch, and the ends of predictions.
#include <algorithm>
#include <utility>

#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {

void SourceFileImpl::want(Cause cause, const base::ByteRange& range) {
  auto& wants = wants_[index_of(cause)];
  const bool known =
      std::any_of(wants.begin(), wants.end(), [&](const auto& wanted) { return wanted.contains(range); });
  if (!known) wants.push_back(range);
}

bool SourceFileImpl::unwant_ahead(const base::ByteRange& range) {
  auto& wants = wants_[index_of(Cause::kReadahead)];
  std::deque<base::ByteRange> left;
  bool wanted_before = false;
  for (const auto& wanted : wants) {
    wanted_before = wanted_before || !wanted.intersect(range).empty();
    const base::ByteRange before{wanted.begin, std::min(wanted.end, range.begin)};
    const base::ByteRange behind{std::max(wanted.begin, range.end), wanted.end};
    if (!before.empty()) left.push_back(before);
    if (!behind.empty()) left.push_back(behind);
  }
  wants.swap(left);
  return wanted_before;
}

void SourceFileImpl::want_ahead(const std::vector<base::ByteRange>& ranges) {
  auto& wants = wants_[index_of(Cause::kReadahead)];
  size_t place = 0;
  for (const auto& range : ranges) {
    const bool wanted_before = unwant_ahead(range);
    const auto before =
        std::find_if(wants.begin(), wants.end(), [&](const auto& wanted) { return wanted.end == range.begin; });
    if (!wanted_before && before != wants.end()) {
      before->end = range.end;
    } else {
      wants.insert(wants.begin() + place++, range);
    }
  }
}

std::vector<store::RequestHandle> SourceFileImpl::drop_ahead(const base::ByteRange& range) {
  std::vector<store::RequestHandle> unwanted;
  if (range.empty()) return unwanted;
  unwant_ahead(range);
  for (const auto& part : parts_) {
    // One that has begun to arrive has most of its rest on the way already.
    const bool begun = part->progress > part->range.begin;
    if (part->cause != Cause::kReadahead || part->urgency != Cause::kReadahead || begun) continue;
    if (!range.contains(part->range) || overlaps_parked(part->range)) continue;
    part->unwanted = true;
    if (part->request) unwanted.push_back(part->request);
  }
  return unwanted;
}

bool SourceFileImpl::is_wanted(const base::ByteRange& range) const {
  return std::any_of(wants_.begin(), wants_.end(), [&](const auto& wants) {
    return std::any_of(wants.begin(), wants.end(), [&](const auto& wanted) {
      const base::ByteRange both = wanted.intersect(range);
      return !both.empty() && next_missing(both.begin, both.end) < both.end;
    });
  });
}

std::vector<store::RequestHandle> SourceFileImpl::raise_parts(const base::ByteRange& range, Cause cause) {
  std::vector<store::RequestHandle> raised;
  for (const auto& part : parts_) {
    if (part->urgency <= cause || part->range.intersect(range).empty()) continue;
    part->urgency = cause;
    if (part->request) raised.push_back(part->request);
  }
  return raised;
}

std::vector<store::RequestHandle> SourceFileImpl::give_up_parts(Cause first) {
  std::vector<store::RequestHandle> unwanted;
  for (const auto& part : parts_) {
    if (part->urgency < first || overlaps_parked(part->range)) continue;
    part->unwanted = true;
    if (part->request) unwanted.push_back(part->request);
  }
  return unwanted;
}

void SourceFileImpl::prefetch(base::ByteRange range, Cause cause, std::function<void()> done) {
  range = range.intersect({0, info_.size_bytes});
  bool wanted = false;
  std::vector<store::RequestHandle> raised;
  {
    std::lock_guard lock(mutex_);
    if (!range.empty() && !changed_ && !stopped_) {
      raised = raise_parts(range, cause);
      wanted = next_missing(range.begin, range.end) < range.end;
      if (wanted) want(cause, range);
    }
    if (done) prefetches_.push_back({range, std::move(done)});
  }
  for (const auto& request : raised) request->raise_to(priority_of(cause));
  if (wanted) {
    shared_.scheduler.enqueue(shared_from_this(), cause);
    shared_.scheduler.pump();
  }
  tell_settled();
}

void SourceFileImpl::cancel_prefetch() { give_up(Cause::kSmallFiles); }

void SourceFileImpl::end_predictions() {
  {
    std::lock_guard lock(mutex_);
    if (handles_ > 0) return;
  }
  // Nobody reads it and nothing would keep it: what was only predicted is not worth its bytes.
  give_up(Cause::kReadahead);
}

void SourceFileImpl::give_up(Cause first) {
  std::vector<store::RequestHandle> unwanted;
  {
    std::lock_guard lock(mutex_);
    for (const Cause cause : kAllCauses)
      if (cause >= first) wants_[index_of(cause)].clear();
    unwanted = give_up_parts(first);
  }
  for (const auto& request : unwanted) request->cancel();
  tell_settled();
  shared_.scheduler.memory_freed();
}

void SourceFileImpl::tell_settled() {
  std::vector<Prefetch> settled;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(prefetches_, [&](Prefetch& prefetch) {
      const base::ByteRange& range = prefetch.range;
      const auto overlaps = [&](const auto& part) { return !part->range.intersect(range).empty(); };
      const auto elsewhere = foreign_.lower_bound(block_of(range.begin));
      if (!stopped_ && !range.empty() &&
          (is_wanted(range) || std::any_of(parts_.begin(), parts_.end(), overlaps) ||
           (elsewhere != foreign_.end() && elsewhere->first <= block_of(range.end - 1)))) {
        return false;
      }
      settled.push_back(std::move(prefetch));
      return true;
    });
  }
  for (const auto& prefetch : settled) prefetch.done();
}

}  // namespace shardfs::fetch
