#include "fetch/scheduler.h"

#include <algorithm>
#include <numeric>

#include "fetch/part.h"
#include "fetch/shared.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {

Scheduler::Scheduler(Shared& shared)
    : shared_(shared),
      connections_(std::max(1u, shared.options.connections)),
      demand_reserve_(connections_ < 4 ? connections_ / 2 : std::max(2u, connections_ / 8)) {}

void Scheduler::enqueue(std::shared_ptr<SourceFileImpl> file, Cause cause) {
  std::lock_guard lock(mutex_);
  auto& queue = queues_[index_of(cause)];
  if (std::find(queue.begin(), queue.end(), file) == queue.end()) queue.push_back(std::move(file));
}

unsigned Scheduler::active() const { return std::accumulate(active_.begin(), active_.end(), 0u); }

bool Scheduler::may_start(Cause cause) const {
  if (active() >= connections_) return false;
  return cause == Cause::kDemand || active() - active_[index_of(Cause::kDemand)] < connections_ - demand_reserve_;
}

Scheduler::Next Scheduler::plan_next() {
  Next next;
  for (const Cause cause : kAllCauses) {
    auto& queue = queues_[index_of(cause)];
    while (!queue.empty() && may_start(cause)) {
      auto file = queue.front();
      const auto planned = file->plan_part(cause, next.part);
      if (planned == SourceFileImpl::Planned::kNoMemory) {
        next.out_of_memory = cause;
        return next;
      }
      queue.pop_front();
      if (planned == SourceFileImpl::Planned::kNothing) {
        next.without_wants.push_back(std::move(file));
        continue;
      }
      queue.push_back(std::move(file));
      ++active_[index_of(cause)];
      return next;
    }
  }
  return next;
}

void Scheduler::pump() {
  while (!shared_.stopping) {
    Next next;
    {
      std::lock_guard lock(mutex_);
      next = plan_next();
      if (next.out_of_memory) starved_ = true;
    }
    for (const auto& file : next.without_wants) file->tell_settled();
    if (next.part) {
      next.part->file->start_part(next.part);
      continue;
    }
    if (!next.out_of_memory || !evict(*next.out_of_memory)) break;
  }
  shared_.metrics.memory_bytes.set(static_cast<int64_t>(shared_.budget.used_bytes()));
}

void Scheduler::part_ended(Cause cause) {
  std::lock_guard lock(mutex_);
  --active_[index_of(cause)];
  if (active() == 0) idle_.notify_all();
}

void Scheduler::memory_freed() {
  if (starved_.exchange(false)) pump();
}

void Scheduler::add_idle(std::weak_ptr<SourceFileImpl> file, uint32_t block, bool saved) {
  std::lock_guard lock(idle_mutex_);
  (saved ? saved_ : unsaved_).push_back({std::move(file), block});
}

bool Scheduler::evict(Cause cause) {
  const bool demand = cause == Cause::kDemand;
  if (is_guess(cause) && drop_one(saved_, Droppable::kOfClosed)) return true;
  if (drop_one(saved_, Droppable::kOfOpen)) return true;
  if (drop_one(unsaved_, demand ? Droppable::kOfOpen : Droppable::kOfClosed)) return true;
  // Reads that each hold a part of what they need, and no memory for the rest: one of them goes back to the start.
  return demand && (drop_one(saved_, Droppable::kOfParked) || drop_one(unsaved_, Droppable::kOfParked));
}

bool Scheduler::drop_one(std::deque<IdleBlock>& blocks, Droppable which) {
  size_t left;
  {
    std::lock_guard lock(idle_mutex_);
    left = blocks.size();
  }
  for (; left > 0; --left) {
    IdleBlock candidate;
    {
      std::lock_guard lock(idle_mutex_);
      if (blocks.empty()) return false;
      candidate = std::move(blocks.front());
      blocks.pop_front();
    }
    const auto file = candidate.file.lock();
    if (!file) continue;
    switch (file->drop_block(candidate.block, which)) {
      case SourceFileImpl::Drop::kDropped: return true;
      case SourceFileImpl::Drop::kGone: break;
      case SourceFileImpl::Drop::kKept: {
        std::lock_guard lock(idle_mutex_);
        blocks.push_back(std::move(candidate));
        break;
      }
    }
  }
  return false;
}

void Scheduler::trim() {
  trim(saved_);
  trim(unsaved_);
}

void Scheduler::trim(std::deque<IdleBlock>& blocks) {
  std::deque<IdleBlock> known;
  {
    std::lock_guard lock(idle_mutex_);
    if (blocks.size() <= 2 * shared_.options.memory_bytes / kBlockBytes) return;
    known.swap(blocks);
  }
  std::erase_if(known, [](const IdleBlock& idle) {
    const auto file = idle.file.lock();
    return !file || !file->in_memory(idle.block);
  });
  std::lock_guard lock(idle_mutex_);
  blocks.insert(blocks.begin(), known.begin(), known.end());
}

void Scheduler::wait_until_idle() {
  std::unique_lock lock(mutex_);
  for (auto& queue : queues_) queue.clear();
  idle_.wait(lock, [&] { return active() == 0; });
}

}  // namespace shardfs::fetch
