// Planning, starting and ending parts: how what is wanted becomes GETs, and what arrives becomes answers.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// A read-ahead part that memory would cut below this waits instead. Source: a part costs a round trip of 30 ms, in
// which a connection of 90 MB/s would carry 2.7 MB.
constexpr size_t kSmallestAheadBlocks = 2;

/// What a part must leave of the memory for more urgent ones. Guesses use what is spare: half stays free.
uint64_t kept_free_bytes(Cause cause, uint64_t memory_bytes) {
  switch (cause) {
    case Cause::kDemand: return 0;
    case Cause::kReadahead:
    case Cause::kSmallFiles: return std::max(memory_bytes / 8, 2 * kBlockBytes);
    case Cause::kNextShard:
    case Cause::kWarm: return std::max(memory_bytes / 2, 2 * kBlockBytes);
  }
  return 0;
}

}  // namespace

const Part* SourceFileImpl::part_at(uint64_t offset) const {
  for (const auto& part : parts_)
    if (part->left().contains(offset)) return part.get();
  return nullptr;
}

uint64_t SourceFileImpl::next_missing(uint64_t from, uint64_t end) const {
  while (from < end) {
    const uint32_t block = block_of(from);
    const base::ByteRange whole = memory_.range_of(block);
    if (in_cache(block) || foreign_.count(block)) {
      from = whole.end;
    } else if (memory_.find(block) && memory_.next_page(from, false) > from) {
      from = memory_.next_page(from, false);
    } else if (const Part* part = part_at(from)) {
      from = part->range.end;
    } else {
      return from;
    }
  }
  return end;
}

uint64_t SourceFileImpl::missing_end(uint64_t from, uint64_t end) const {
  uint64_t at = from;
  while (at < end) {
    const uint32_t block = block_of(at);
    uint64_t bound = std::min(end, memory_.range_of(block).end);
    if (in_cache(block) || foreign_.count(block)) return at;
    if (memory_.find(block)) bound = std::min(bound, memory_.next_page(at, true));
    for (const auto& part : parts_)
      if (part->range.end > at && part->left().begin < bound) bound = std::max(at, part->left().begin);
    const bool stopped = bound < std::min(end, memory_.range_of(block).end);
    at = bound;
    if (stopped) return at;
  }
  return end;
}

SourceFileImpl::Planned SourceFileImpl::plan_part(Cause cause, std::shared_ptr<Part>& part) {
  std::lock_guard lock(mutex_);
  auto& wants = wants_[index_of(cause)];
  while (!wants.empty()) {
    auto& wanted = wants.front();
    const uint64_t missing = next_missing(wanted.begin, wanted.end);
    if (stopped_ || changed_ || missing >= wanted.end) {
      wants.pop_front();
      continue;
    }
    const uint64_t begin = base::align_down(missing, kPageBytes);
    const uint64_t limit = base::align_down(begin, kBlockBytes) + shared_.options.part_bytes;
    uint64_t end = missing_end(begin, std::min(wanted.end, limit));
    const bool demand = cause == Cause::kDemand;
    const uint64_t keep_free = kept_free_bytes(cause, shared_.options.memory_bytes);
    std::vector<std::shared_ptr<base::Buffer>> buffers;
    size_t blocks = block_of(end - 1) - block_of(begin) + 1;
    if (!demand && shared_.holders.count() > (holding_ ? 1u : 0u)) {
      // Windows shrink when others read, too. Unsaved blocks can't be dropped for them without a loss.
      const uint64_t share = shared_.share_bytes();
      const uint64_t held = memory_.unsaved_blocks() * kBlockBytes;
      if (held + std::min(blocks, kSmallestAheadBlocks) * kBlockBytes > share) return Planned::kOverShare;
      blocks = std::min<size_t>(blocks, (share - held) / kBlockBytes);
      end = std::min(end, memory_.range_of(block_of(begin) + blocks - 1).end);
    }
    for (uint32_t block = block_of(begin); buffers.size() < blocks; ++block) {
      const MemoryBlock* known = memory_.find(block);
      auto buffer = known ? known->buffer : shared_.try_take_buffer(info_.size_bytes, keep_free);
      if (!buffer) break;
      buffers.push_back(std::move(buffer));
    }
    if (buffers.size() < (demand ? 1 : std::min(blocks, kSmallestAheadBlocks))) {
      short_of_memory_ = short_of_memory_ || demand;
      return Planned::kNoMemory;
    }
    if (buffers.size() < blocks) end = memory_.range_of(block_of(begin) + buffers.size() - 1).end;
    part = std::make_shared<Part>(shared_from_this(), base::ByteRange{begin, end}, cause);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const uint32_t block = block_of(begin) + i;
      if (memory_.find(block)) continue;
      memory_.add(block, buffers[i]);
      origins_.begin(block, cause);
    }
    part->buffers = std::move(buffers);
    part->granted.assign(part->buffers.size(), false);
    part->short_of_memory = demand && std::exchange(short_of_memory_, false);
    parts_.push_back(part);
    shared_.metrics.parts.add(1);
    count_holding();
    wanted.begin = end;
    return Planned::kPart;
  }
  count_holding();
  return Planned::kNothing;
}

void SourceFileImpl::start_part(const std::shared_ptr<Part>& part) {
  part->target = fill_target();
  const uint32_t first = block_of(part->range.begin);
  // The run of blocks [run_begin, run_end) that this process may fetch; a block that another one fills, or that is
  // resident by now, ends it.
  size_t run_begin = 0, run_end = part->buffers.size();
  std::vector<uint32_t> busy;
  bool started = false;
  for (size_t i = 0; part->target && i < part->buffers.size(); ++i) {
    const base::ByteRange whole = memory_.range_of(first + i);
    const bool fully = part->range.contains(whole);
    auto answer = fully ? part->target->begin_fill(first + i) : cache::FillAnswer::kRefused;
    if (fully && answer == cache::FillAnswer::kRefused && shared_.idle_files.release_all()) {
      answer = part->target->begin_fill(first + i);
    }
    const bool wait = answer == cache::FillAnswer::kBusy && !is_impatient(first + i);
    part->granted[i] = answer == cache::FillAnswer::kGranted;
    if (answer != cache::FillAnswer::kResident && !wait) {
      started = true;
      continue;
    }
    if (wait) busy.push_back(first + i);
    if (started) {
      run_end = i;
      break;
    }
    run_begin = i + 1;
  }
  bool poll = false, rewanted = false;
  std::vector<Ready> ready;
  store::GetOptions get;
  {
    std::lock_guard lock(mutex_);
    const base::ByteRange planned = part->range;
    const base::ByteRange run{
        std::max(planned.begin, memory_.range_of(first + run_begin).begin),
        std::min(planned.end, run_end > run_begin ? memory_.range_of(first + run_end - 1).end : planned.begin)};
    for (size_t i = 0; i < part->buffers.size(); ++i) {
      const MemoryBlock* block = memory_.find(first + i);
      if ((i < run_begin || i >= run_end) && block && block->pages.none()) memory_.erase(first + i);
    }
    for (uint32_t block : busy) foreign_.emplace(block, shared_.env.clock.now());
    if (!busy.empty() && !polling_foreign_) poll = polling_foreign_ = true;
    part->buffers = {part->buffers.begin() + run_begin, part->buffers.begin() + std::max(run_begin, run_end)};
    part->granted = {part->granted.begin() + run_begin, part->granted.begin() + std::max(run_begin, run_end)};
    part->range = run;
    part->progress = run.begin;
    if (run_end > run_begin && run.end < planned.end) {
      wants_[index_of(part->cause)].push_front({run.end, planned.end});
      rewanted = true;
    }
    if (run.size() < planned.size()) ready = take_ready(planned, nullptr);
    get.key = info_.key;
    get.range = part->range;
    get.expect = info_;
    get.priority = overlaps_parked(part->range) ? store::Priority::kDemand : priority_of(part->urgency);
    get.deadline = shared_.options.demand_deadline;
  }
  deliver_all(std::move(ready));
  if (poll) schedule_foreign_poll();
  if (rewanted) shared_.scheduler.enqueue(shared_from_this(), part->cause);
  if (get.range.empty()) return end_part(part, {});
  std::shared_ptr<Leg> leg;
  {
    std::lock_guard lock(mutex_);
    part->started = shared_.env.clock.now();
    leg = std::make_shared<Leg>(part, part->range.begin, part->started, false);
    leg->unwanted = part->unwanted;
    part->legs.push_back(leg);
  }
  shared_.stragglers.part_started();
  start_leg(leg, std::move(get));
}

void SourceFileImpl::settle_failed_part(const Part& part, const base::Error& error, std::vector<Ended>& ended) {
  const bool final = part.cause == Cause::kDemand || changed_ || error.code == base::Code::kPermission ||
                     error.code == base::Code::kIntegrity;
  const base::ByteRange lost = part.left();
  for (auto it = parked_.begin(); it != parked_.end();) {
    const base::ByteRange touched = (*it)->range.intersect(lost);
    if (touched.empty()) {
      ++it;
      continue;
    }
    if (!final) {
      want(Cause::kDemand, touched);
      ++it;
      continue;
    }
    ended.push_back({*it, changed_ ? *changed_ : error});
    it = parked_.erase(it);
    shared_.metrics.parked_reads.add(-1);
  }
}

void SourceFileImpl::end_part(const std::shared_ptr<Part>& part, const base::Result<void>& result) {
  std::vector<Ended> ended;
  std::vector<uint32_t> unfilled;
  bool changed_now = false, is_open = false;
  bool demand = false, again = false;
  {
    std::lock_guard lock(mutex_);
    is_open = handles_ > 0;
    std::erase(parts_, part);
    shared_.metrics.parts.add(-1);
    const uint32_t first = block_of(part->range.begin);
    for (size_t i = 0; i < part->buffers.size(); ++i) {
      if (part->granted[i]) unfilled.push_back(first + i);
      const MemoryBlock* block = memory_.find(first + i);
      if (!block || block->full) continue;
      if (block->pages.none() && !std::any_of(parts_.begin(), parts_.end(), [&](const auto& other) {
            return !other->range.intersect(memory_.range_of(first + i)).empty();
          })) {
        memory_.erase(first + i);
      } else {
        shared_.scheduler.add_idle(weak_from_this(), first + i, false);
      }
    }
    if (!result) {
      const auto code = result.error().code;
      if ((code == base::Code::kChanged || code == base::Code::kNotFound) && !changed_) {
        changed_ = base::Error{base::Code::kChanged, result.error().message};
        changed_now = true;
        for (auto& wants : wants_) wants.clear();
      }
      settle_failed_part(*part, result.error(), ended);
      demand = !wants_[0].empty();
      if (part->preempted && !part->unwanted && !changed_ && !stopped_) {
        wants_[index_of(part->cause)].push_front(part->left());
        again = true;
      }
    }
    count_holding();
  }
  for (const uint32_t block : unfilled) part->target->abandon_fill(block);
  for (auto& [read, error] : ended) end_read(read, std::move(error));
  if (changed_now) {
    // A guess may name what is no more.
    if (is_open) {
      base::log_warning("{}: changed or deleted at the store while it was open: {}", info_.key, changed_->message);
    } else {
      base::log_debug("{}: changed or deleted at the store: {}", info_.key, changed_->message);
    }
    if (shared_.on_changed) shared_.on_changed(info_);
  }
  part->buffers.clear();
  note_if_idle();
  if (demand) shared_.scheduler.enqueue(shared_from_this(), Cause::kDemand);
  if (again) shared_.scheduler.enqueue(shared_from_this(), part->cause);
  shared_.scheduler.part_ended(*part);
  tell_settled();
}

}  // namespace shardfs::fetch
