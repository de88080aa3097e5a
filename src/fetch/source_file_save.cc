// The cache file as one more consumer of what arrived, and the blocks that other processes fill.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// After this long without the block another process' fetch is not waited for. Source: ten times the slowest part that a
// store with 100 ms and 30 MB/s a connection needs.
constexpr std::chrono::seconds kForeignPatience{4};
// How often the map is looked at for them. Source: a third of a 30 ms round trip; 8 lock calls each.
constexpr std::chrono::milliseconds kForeignPoll{10};

}  // namespace

std::shared_ptr<cache::CacheFile> SourceFileImpl::fill_target() {
  if (!shared_.env.cache) return nullptr;
  {
    std::lock_guard lock(mutex_);
    if (cache_file_ && cache_file_->dead()) set_cache_file(nullptr);
    if (cache_file_ || cache_refused_) return cache_file_;
  }
  auto opened = shared_.env.cache->open_file(id_, info_.size_bytes);
  if (!opened && shared_.idle_files.release_all()) opened = shared_.env.cache->open_file(id_, info_.size_bytes);
  std::lock_guard lock(mutex_);
  if (!opened) cache_refused_ = true;
  if (!cache_file_) set_cache_file(std::move(opened));
  return cache_file_;
}

void SourceFileImpl::tell_if_complete(cache::CacheFile& file) {
  if (!file.complete() || !file.verified()) return;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(complete_told_, true)) return;
  }
  if (shared_.on_complete) shared_.on_complete(info_);
}

void SourceFileImpl::run_saves() {
  for (;;) {
    Save next;
    {
      std::lock_guard lock(mutex_);
      if (saves_.empty()) {
        saving_ = false;
        return;
      }
      next = std::move(saves_.front());
      saves_.pop_front();
    }
    save_block(next);
  }
}

void SourceFileImpl::save_block(const Save& save) {
  const uint32_t block = save.block;
  const auto& target = save.target;
  bool granted = save.granted;
  std::shared_ptr<base::Buffer> buffer;
  {
    std::lock_guard lock(mutex_);
    if (const MemoryBlock* found = memory_.find(block)) buffer = found->buffer;
  }
  const uint64_t bytes = memory_.range_of(block).size();
  bool saved = false;
  if (buffer) {
    if (!granted) {
      const auto answer = target->begin_fill(block);
      granted = answer == cache::FillAnswer::kGranted;
      saved = answer == cache::FillAnswer::kResident;
    }
    if (granted) {
      const auto written = target->write_block(block, buffer->span().first(bytes));
      saved = written.has_value();
      // The cache has warned of it, once.
      if (!written) base::log_debug("cache: {}; streaming past it", written.error().message);
    }
  }
  if (saved && target->resident_bytes() >= info_.size_bytes && !target->complete()) {
    const auto finished = target->finish();
    if (!finished) base::log_debug("cache: {}", finished.error().message);
  }
  {
    std::lock_guard lock(mutex_);
    --writes_;
    if (MemoryBlock* found = memory_.find(block)) {
      found->writing = false;
      if (saved) memory_.mark_saved(block);
      if (saved && found->served_bytes >= bytes) {
        drop_read_through(block);
      } else {
        shared_.scheduler.add_idle(weak_from_this(), block, saved);
      }
      count_holding();
    }
  }
  if (!saved) shared_.metrics.bypassed_bytes.add(bytes);
  shared_.writing_bytes -= kBlockBytes;
  shared_.metrics.disk_writes.add(-1);
  buffer.reset();
  if (saved) tell_if_complete(*target);
  note_if_idle();
  shared_.scheduler.memory_freed();
}

bool SourceFileImpl::in_memory(uint32_t block) {
  std::lock_guard lock(mutex_);
  return memory_.find(block) != nullptr;
}

SourceFileImpl::Drop SourceFileImpl::drop_block(uint32_t block, Scheduler::Droppable which) {
  std::lock_guard lock(mutex_);
  const MemoryBlock* found = memory_.find(block);
  if (!found || found->writing) return Drop::kGone;  // one being written is listed again when it is done
  const base::ByteRange whole = memory_.range_of(block);
  const bool filling = std::any_of(parts_.begin(), parts_.end(),
                                   [&](const auto& part) { return !part->range.intersect(whole).empty(); });
  if (filling) return found->full ? Drop::kKept : Drop::kGone;  // listed again when the part ends
  using Droppable = Scheduler::Droppable;
  const bool expected = shared_.env.clock.now() < expected_until_;
  if (handles_ > 0) {
    if (which == Droppable::kUnexpected || which == Droppable::kOfClosed) return Drop::kKept;
    const bool awaited = expected && found->served_bytes == 0 && policy_.comes_to(whole.begin);
    if (which == Droppable::kUnawaited && awaited) return Drop::kKept;
  } else if (expected && which <= Droppable::kUnawaited) {
    return Drop::kKept;
  }
  if (which != Scheduler::Droppable::kOfParked && overlaps_parked(whole)) return Drop::kKept;
  memory_.erase(block);
  count_holding();
  return Drop::kDropped;
}

bool SourceFileImpl::give_back_block() {
  {
    std::lock_guard lock(mutex_);
    if (handles_ == 0 || memory_.unsaved_blocks() * kBlockBytes <= shared_.share_bytes()) return false;
    const auto& blocks = memory_.all();
    const auto last = std::find_if(blocks.rbegin(), blocks.rend(), [&](const auto& entry) {
      const auto& [number, block] = entry;
      return block.full && !block.writing && !block.saved && block.served_bytes == 0 &&
             !overlaps_parked(memory_.range_of(number)) && !part_at(memory_.range_of(number).begin);
    });
    if (last == blocks.rend()) return false;
    want(Cause::kReadahead, memory_.range_of(last->first));
    memory_.erase(last->first);
    shared_.metrics.given_back_blocks.add();
    count_holding();
  }
  shared_.scheduler.enqueue(shared_from_this(), Cause::kReadahead);
  return true;
}

bool SourceFileImpl::is_impatient(uint32_t block) const {
  std::lock_guard lock(mutex_);
  return impatient_.count(block) > 0;
}

void SourceFileImpl::schedule_foreign_poll() {
  shared_.env.timer.schedule(kForeignPoll, [weak = weak_from_this()] {
    // begin_fill may evict, so not on the timer's thread.
    if (const auto self = weak.lock()) self->shared_.post([self] { self->poll_foreign(); });
  });
}

void SourceFileImpl::poll_foreign() {
  const auto target = fill_target();
  std::vector<uint32_t> waiting;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [block, since] : foreign_) waiting.push_back(block);
  }
  std::set<uint32_t> free;  // the other process has let go of it
  for (const uint32_t block : waiting) {
    const auto answer = target ? target->begin_fill(block) : cache::FillAnswer::kRefused;
    if (answer == cache::FillAnswer::kGranted) target->abandon_fill(block);
    if (answer == cache::FillAnswer::kGranted || answer == cache::FillAnswer::kRefused) free.insert(block);
  }
  std::vector<Ready> ready;
  bool demand = false, ahead = false, again = false;
  const auto now = shared_.env.clock.now();
  {
    std::lock_guard lock(mutex_);
    for (auto it = foreign_.begin(); it != foreign_.end();) {
      const auto [block, since] = *it;
      const base::ByteRange range = memory_.range_of(block);
      const bool late = now - since > kForeignPatience;
      if (!in_cache(block) && !free.count(block) && !late) {
        ++it;
        continue;
      }
      it = foreign_.erase(it);
      if (in_cache(block)) {
        auto arrived = take_ready(range, nullptr);
        std::move(arrived.begin(), arrived.end(), std::back_inserter(ready));
        continue;
      }
      if (late) impatient_.insert(block);
      const bool urgent = overlaps_parked(range);
      want(urgent ? Cause::kDemand : Cause::kReadahead, range);
      (urgent ? demand : ahead) = true;
    }
    again = polling_foreign_ = !foreign_.empty() && !stopped_;
  }
  deliver_all(std::move(ready));
  if (target) tell_if_complete(*target);
  if (again) schedule_foreign_poll();
  start_pending(demand, ahead);
  tell_settled();
}

}  // namespace shardfs::fetch
