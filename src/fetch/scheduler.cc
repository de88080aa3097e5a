#include "fetch/scheduler.h"

#include <algorithm>
#include <numeric>

#include "fetch/part.h"
#include "fetch/shared.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// Parts beyond the store's connections, when it allows fewer than we have: it must see that more would be used.
constexpr unsigned kWaitingAtTheStore = 2;
// Blocks are not looked through again for this long, or until so many came to them. Source: without it a scan with full
// memory cost twice the processor time.
constexpr std::chrono::milliseconds kLookPause{2};
constexpr unsigned kLookAfter = 4;

}  // namespace

Scheduler::Scheduler(Shared& shared) : shared_(shared), connections_(std::max(1u, shared.options.connections)) {}

void Scheduler::enqueue(std::shared_ptr<SourceFileImpl> file, Cause cause) {
  look_at_ = base::SteadyTime{};
  std::lock_guard lock(mutex_);
  auto& queue = queues_[index_of(cause)];
  if (std::find(queue.begin(), queue.end(), file) == queue.end()) queue.push_back(std::move(file));
}

unsigned Scheduler::active() const { return std::accumulate(active_.begin(), active_.end(), second_legs_); }

/// What the store sends at once; more only wait for each other.
unsigned Scheduler::slots() const { return std::clamp(shared_.env.store.connection_limit(), 1u, connections_); }

/// Of them, those that only demand may use.
unsigned Scheduler::reserve() const {
  const unsigned all = slots();
  return all < 4 ? all / 2 : std::max(2u, all / 8);
}

bool Scheduler::may_start(Cause cause) const {
  if (active() >= connections_) return false;
  if (cause == Cause::kDemand) return true;
  const unsigned all = slots();
  const unsigned waiting = all < connections_ ? kWaitingAtTheStore : 0;
  return active() - active_[index_of(Cause::kDemand)] < all - reserve() + waiting;
}

Scheduler::Next Scheduler::plan_next() {
  Next next;
  for (const Cause cause : kAllCauses) {
    auto& queue = queues_[index_of(cause)];
    for (size_t left = queue.size(); left > 0 && may_start(cause); --left) {
      auto file = std::move(queue.front());
      queue.pop_front();
      switch (file->plan_part(cause, next.part)) {
        case SourceFileImpl::Planned::kPart:
          queue.push_back(std::move(file));
          next.displaces = cause == Cause::kDemand && store_is_busy();
          ++active_[index_of(cause)];
          started_.push_back(next.part);
          return next;
        case SourceFileImpl::Planned::kNothing: next.without_wants.push_back(std::move(file)); break;
        case SourceFileImpl::Planned::kOverShare:
          next.over_share = true;
          queue.push_back(std::move(file));
          break;
        case SourceFileImpl::Planned::kNoMemory:
          next.out_of_memory = cause;
          queue.push_front(std::move(file));
          return next;
      }
    }
  }
  return next;
}

/// Another demand part would find all of the store's connections busy, some with what is not demand.
bool Scheduler::store_is_busy() const {
  const unsigned all = slots();
  const unsigned demand = active_[index_of(Cause::kDemand)];
  if (demand >= all) return false;
  const unsigned ahead = std::min({active() - demand - preempting_, all - reserve(), all - demand});
  return ahead > 0 && demand + ahead >= all;
}

std::shared_ptr<Part> Scheduler::choose_victim(bool displaces) {
  // Or demand that has no connection of ours.
  const auto& waiting = queues_[index_of(Cause::kDemand)];
  const bool queued = !may_start(Cause::kDemand) && preempting_ < waiting.size() &&
                      std::any_of(waiting.begin(), waiting.end(),
                                  [](const auto& file) { return file->wants_anything(Cause::kDemand); });
  if (!queued && !displaces) return nullptr;
  std::shared_ptr<Part> victim;
  SourceFileImpl::Standing least{};
  for (const auto& part : started_) {
    const auto standing = part->file->standing_of(*part);
    if (!standing) continue;
    if (!victim || standing->urgency > least.urgency ||
        (standing->urgency == least.urgency && standing->arrived_bytes < least.arrived_bytes)) {
      victim = part;
      least = *standing;
    }
  }
  return victim;
}

void Scheduler::pump() {
  while (!shared_.stopping) {
    Next next;
    std::vector<store::RequestHandle> preempted;
    {
      std::lock_guard lock(mutex_);
      next = plan_next();
      if (next.out_of_memory || next.over_share) starved_ = true;
      if (const auto victim = choose_victim(next.displaces)) {
        preempted = victim->file->preempt(*victim);
        ++preempting_;
      }
    }
    for (const auto& request : preempted) request->cancel();
    for (const auto& file : next.without_wants) file->tell_settled();
    if (next.part) {
      next.part->file->start_part(next.part);
      continue;
    }
    if (!preempted.empty()) continue;
    if (!next.out_of_memory || !evict(*next.out_of_memory)) break;
  }
  shared_.metrics.memory_bytes.set(static_cast<int64_t>(shared_.budget.used_bytes()));
}

void Scheduler::part_ended(const Part& part) {
  std::lock_guard lock(mutex_);
  std::erase_if(started_, [&](const auto& started) { return started.get() == &part; });
  --active_[index_of(part.cause)];
  if (part.preempted) --preempting_;
  if (active() == 0) idle_.notify_all();
}

bool Scheduler::begin_second_leg() {
  std::lock_guard lock(mutex_);
  if (shared_.stopping || active() >= connections_) return false;
  ++second_legs_;
  return true;
}

void Scheduler::second_leg_ended() {
  std::lock_guard lock(mutex_);
  --second_legs_;
  if (active() == 0) idle_.notify_all();
}

std::vector<std::shared_ptr<Part>> Scheduler::started() const {
  std::lock_guard lock(mutex_);
  return started_;
}

void Scheduler::memory_freed() {
  if (starved_.exchange(false)) pump();
}

void Scheduler::add_idle(std::weak_ptr<SourceFileImpl> file, uint32_t block, bool saved) {
  ++idle_since_look_;
  std::lock_guard lock(idle_mutex_);
  (saved ? saved_ : unsaved_).push_back({std::move(file), block});
}

bool Scheduler::evict(Cause cause) {
  const auto now = shared_.env.clock.now();
  if (cause != Cause::kDemand && now < look_at_.load() && idle_since_look_ < kLookAfter) return false;
  // What a scan comes to is kept for it: read from the disk it would cost more than it is worth to fetch further ahead.
  // Of what was guessed the newest goes: its reader comes to it last.
  if (drop_one(saved_, Droppable::kUnexpected) || drop_one(saved_, Droppable::kUnawaited, End::kNewest) ||
      drop_one(saved_, Droppable::kOfClosed, End::kNewest) || drop_one(unsaved_, Droppable::kUnexpected)) {
    return true;
  }
  if (cause == Cause::kDemand) {
    // At last reads that each hold a part of what they need, and no memory for the rest: one of them goes back to the
    // start.
    return drop_one(saved_, Droppable::kOfOpen, End::kNewest) || drop_one(unsaved_, Droppable::kOfClosed) ||
           drop_one(unsaved_, Droppable::kOfOpen) || drop_one(saved_, Droppable::kOfParked) ||
           drop_one(unsaved_, Droppable::kOfParked);
  }
  if (cause == Cause::kReadahead && take_back_one()) return true;
  look_at_ = now + kLookPause;
  idle_since_look_ = 0;
  return false;
}

bool Scheduler::drop_one(std::deque<IdleBlock>& blocks, Droppable which, End from) {
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
      auto& end = from == End::kOldest ? blocks.front() : blocks.back();
      candidate = std::move(end);
      if (from == End::kOldest) {
        blocks.pop_front();
      } else {
        blocks.pop_back();
      }
    }
    const auto file = candidate.file.lock();
    if (!file) continue;
    switch (file->drop_block(candidate.block, which)) {
      case SourceFileImpl::Drop::kDropped: return true;
      case SourceFileImpl::Drop::kGone: break;
      case SourceFileImpl::Drop::kKept: {
        std::lock_guard lock(idle_mutex_);
        if (from == End::kOldest) {
          blocks.push_back(std::move(candidate));
        } else {
          blocks.push_front(std::move(candidate));
        }
        break;
      }
    }
  }
  return false;
}

bool Scheduler::take_back_one() {
  std::vector<std::weak_ptr<SourceFileImpl>> files;
  {
    std::lock_guard lock(idle_mutex_);
    for (const auto& idle : unsaved_) {
      const bool known = std::any_of(files.begin(), files.end(), [&](const auto& file) {
        return !file.owner_before(idle.file) && !idle.file.owner_before(file);
      });
      if (!known) files.push_back(idle.file);
    }
  }
  return std::any_of(files.begin(), files.end(), [](const auto& weak) {
    const auto file = weak.lock();
    return file && file->give_back_block();
  });
}

void Scheduler::trim() {
  look_at_ = base::SteadyTime{};
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
