// What is wanted before it is asked for: prefetch, and the ends of predictions.
#include <algorithm>
#include <utility>

#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {

namespace {

// Of a scan, left to be read. Source: 60 ms at 1 GB/s, a part of 4 MiB at 30 ms to the first byte and 90 MB/s; twice as
// much was slower, since the reader's last shard is followed by none (docs/decisions/0009).
constexpr uint64_t kScanTailBytes = 64 << 20;
// A run this long is a scan. Source: readahead::PolicyLimits::run_bytes. And of a shard at least a quarter, so that a
// reader of a few samples of each shard does not fetch the next ones.
constexpr uint64_t kScanBytes = 2 << 20;
constexpr uint64_t kScanShare = 4;

// True if any of the range was wanted.
bool subtract(std::deque<base::ByteRange>& wants, const base::ByteRange& range) {
  if (std::none_of(wants.begin(), wants.end(), [&](const auto& wanted) { return !wanted.intersect(range).empty(); }))
    return false;
  std::deque<base::ByteRange> left;
  for (const auto& wanted : wants) {
    if (wanted.begin < range.begin) left.push_back({wanted.begin, std::min(wanted.end, range.begin)});
    if (wanted.end > range.end) left.push_back({std::max(wanted.begin, range.end), wanted.end});
  }
  wants = std::move(left);
  return true;
}

}  // namespace

void SourceFileImpl::drop_read_through(uint32_t block) {
  memory_.erase(block);
  // Whoever wanted it ahead of its reader comes too late.
  for (const Cause cause : kAllCauses)
    if (cause != Cause::kDemand) subtract(wants_[index_of(cause)], memory_.range_of(block));
}

bool SourceFileImpl::is_end_of_scan(const base::ByteRange& read) const {
  if (read.end + kScanTailBytes < info_.size_bytes) return false;
  const auto streams = policy_.streams();
  return std::any_of(streams.begin(), streams.end(), [&](const readahead::StreamState& stream) {
    return stream.begin <= read.begin && read.end <= stream.next &&
           stream.next - stream.begin >=
               std::max(std::min(kScanBytes, info_.size_bytes / 2), info_.size_bytes / kScanShare);
  });
}

void SourceFileImpl::want(Cause cause, base::ByteRange range) {
  // Whole pages: a part of one never counts as arrived, and a read of O_DIRECT ends anywhere.
  range = {base::align_down(range.begin, kPageBytes),
           std::min(info_.size_bytes, base::align_up(range.end, kPageBytes))};
  auto& wants = wants_[index_of(cause)];
  const bool known =
      std::any_of(wants.begin(), wants.end(), [&](const auto& wanted) { return wanted.contains(range); });
  if (!known) wants.push_back(range);
}

bool SourceFileImpl::unwant_ahead(const base::ByteRange& range) {
  return subtract(wants_[index_of(Cause::kReadahead)], range);
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
    const bool begun = part->progress > part->range.begin;  // what is on the wire is paid for
    if (part->cause != Cause::kReadahead || part->urgency != Cause::kReadahead || begun) continue;
    if (!range.contains(part->range) || overlaps_parked(part->range)) continue;
    part->unwanted = true;
    part->give_up_legs(unwanted);
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
    part->add_requests(raised);
  }
  return raised;
}

std::vector<store::RequestHandle> SourceFileImpl::give_up_parts(Cause first) {
  std::vector<store::RequestHandle> unwanted;
  for (const auto& part : parts_) {
    if (part->urgency < first || overlaps_parked(part->range)) continue;
    part->unwanted = true;
    part->give_up_legs(unwanted);
  }
  return unwanted;
}

void SourceFileImpl::prefetch(base::ByteRange range, Cause cause, std::function<void()> done) {
  find_cache_file();
  range = range.intersect({0, info_.size_bytes});
  bool wanted = false;
  std::vector<store::RequestHandle> raised;
  {
    std::lock_guard lock(mutex_);
    if (!range.empty() && !changed_ && !stopped_) {
      raised = raise_parts(range, cause);
      wanted = next_missing(range.begin, range.end) < range.end;
      if (wanted) want(cause, range);
      count_holding();
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

void SourceFileImpl::cancel_prefetch() {
  {
    std::lock_guard lock(mutex_);
    expected_until_ = {};
  }
  give_up(Cause::kSmallFiles);
}

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
    count_holding();
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
