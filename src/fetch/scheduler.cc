#include "fetch/scheduler.h"

#include <algorithm>

#include "fetch/part.h"
#include "fetch/shared.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {

Scheduler::Scheduler(Shared& shared)
    : shared_(shared),
      connections_(std::max(1u, shared.options.connections)),
      demand_reserve_(connections_ < 4 ? connections_ / 2 : std::max(2u, connections_ / 8)) {}

void Scheduler::enqueue(std::shared_ptr<SourceFileImpl> file, store::Priority priority) {
  std::lock_guard lock(mutex_);
  auto& queue = queues_[static_cast<size_t>(priority)];
  if (std::find(queue.begin(), queue.end(), file) == queue.end()) queue.push_back(std::move(file));
}

bool Scheduler::may_start(size_t priority) const {
  const unsigned active = active_[0] + active_[1] + active_[2];
  if (priority == 0) return active < connections_;
  return active_[1] + active_[2] < connections_ - demand_reserve_ && active < connections_;
}

std::shared_ptr<Part> Scheduler::plan_next(bool& out_of_memory) {
  for (size_t priority = 0; priority < queues_.size(); ++priority) {
    auto& queue = queues_[priority];
    while (!queue.empty() && may_start(priority)) {
      const auto file = queue.front();
      std::shared_ptr<Part> part;
      const auto planned = file->plan_part(static_cast<store::Priority>(priority), part);
      if (planned == SourceFileImpl::Planned::kNoMemory) {
        out_of_memory = true;
        return nullptr;
      }
      queue.pop_front();
      if (planned == SourceFileImpl::Planned::kNothing) continue;
      queue.push_back(file);
      ++active_[priority];
      return part;
    }
  }
  return nullptr;
}

void Scheduler::pump() {
  while (!shared_.stopping) {
    bool out_of_memory = false;
    size_t first_waiting = 0;
    std::shared_ptr<Part> part;
    {
      std::lock_guard lock(mutex_);
      part = plan_next(out_of_memory);
      if (out_of_memory) starved_ = true;
      while (first_waiting + 1 < queues_.size() && queues_[first_waiting].empty()) ++first_waiting;
    }
    if (part) {
      part->file->start_part(part);
      continue;
    }
    if (!out_of_memory || !evict(static_cast<store::Priority>(first_waiting))) break;
  }
  shared_.metrics.memory_bytes.set(static_cast<int64_t>(shared_.budget.used_bytes()));
}

void Scheduler::part_ended(store::Priority priority) {
  std::lock_guard lock(mutex_);
  --active_[static_cast<size_t>(priority)];
  if (active_[0] + active_[1] + active_[2] == 0) idle_.notify_all();
}

void Scheduler::memory_freed() {
  if (starved_.exchange(false)) pump();
}

void Scheduler::add_idle(std::weak_ptr<SourceFileImpl> file, uint32_t block, bool saved) {
  std::lock_guard lock(idle_mutex_);
  (saved ? saved_ : unsaved_).push_back({std::move(file), block});
}

bool Scheduler::evict(store::Priority priority) {
  const bool demand = priority == store::Priority::kDemand;
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
  idle_.wait(lock, [&] { return active_[0] + active_[1] + active_[2] == 0; });
}

}  // namespace shardfs::fetch
