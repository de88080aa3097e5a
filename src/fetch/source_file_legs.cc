// The requests of a part: started, preempted, asked for a second time, and what they bring.
#include <algorithm>
#include <utility>

#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// What was guessed is kept so long for its reader, if only read-ahead of others needs the memory. Source: a shard of
// 1 GiB at 30 MB/s, whose end the next one's reader waits for.
constexpr std::chrono::seconds kExpected{30};

}  // namespace

void SourceFileImpl::start_leg(const std::shared_ptr<Leg>& leg, store::GetOptions get) {
  auto request = shared_.env.store.get(std::move(get), leg, [leg](base::Result<void> result) {
    const auto file = leg->part->file;
    file->end_leg(leg, result);
    file->shared_.scheduler.pump();
  });
  bool stop = false;
  {
    std::lock_guard lock(mutex_);
    if (leg->ended) return;
    leg->request = request;
    stop = stopped_ || leg->unwanted;
  }
  if (stop) request->cancel();
}

void SourceFileImpl::end_leg(const std::shared_ptr<Leg>& leg, const base::Result<void>& result) {
  const auto& part = leg->part;
  std::vector<store::RequestHandle> lost;
  base::Result<void> outcome = result;
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    leg->ended = true;
    leg->request.reset();
    std::erase(part->legs, leg);
    last = part->legs.empty();
    if (result && leg->begun != base::SteadyTime{}) {
      shared_.stragglers.answered(leg->begun - leg->started, part->range.end - leg->begin,
                                  shared_.env.clock.now() - leg->begun);
    }
    if (result) {
      part->give_up_legs(lost);
    } else if (!last && result.error().code != base::Code::kCancelled) {
      part->error = result.error();
    }
    if (!result && part->progress >= part->range.end) outcome = {};
    if (!outcome && part->error && outcome.error().code == base::Code::kCancelled)
      outcome = tl::unexpected(*part->error);
  }
  for (const auto& request : lost) request->cancel();
  if (last) return end_part(part, outcome);
  shared_.scheduler.second_leg_ended();
}

SourceFileImpl::Arrival SourceFileImpl::on_received(Leg& leg, uint64_t progress, bool wins) {
  Part& part = *leg.part;
  Arrival arrival;
  std::lock_guard lock(mutex_);
  const auto now = shared_.env.clock.now();
  if (leg.begun == base::SteadyTime{}) leg.begun = now;
  if (part.begun == base::SteadyTime{}) part.begun = now;
  if (wins) {
    if (leg.second) shared_.metrics.hedges_won.add();
    part.give_up_legs(arrival.lost, &leg);
  }
  const uint64_t from = part.progress;
  if (progress <= from) return arrival;
  part.heard = now;
  if (is_guess(part.cause)) expected_until_ = now + kExpected;
  part.progress = progress;
  for (uint64_t at = from; at < progress;) {
    const uint32_t block = block_of(at);
    const uint64_t to = std::min(progress, memory_.range_of(block).end);
    origins_.received(block, part.cause, to - at);
    if (memory_.find(block) && memory_.mark(block, at, to)) {
      const size_t i = block - block_of(part.range.begin);
      const bool granted = part.granted[i];
      const uint64_t waiting = shared_.writing_bytes.load();
      // The disk is slower than the network: what a reader asked for does not wait for it.
      const bool bypass = part.cause == Cause::kDemand && waiting > shared_.options.memory_bytes / 2;
      if (part.target && !bypass) {
        MemoryBlock* full = memory_.find(block);
        full->writing = true;
        ++writes_;
        part.granted[i] = false;
        shared_.writing_bytes += kBlockBytes;
        shared_.metrics.disk_writes.add(1);
        saves_.push_back({block, part.target, granted});
        if (!std::exchange(saving_, true)) arrival.start_saving = true;
      } else {
        shared_.metrics.bypassed_bytes.add(memory_.range_of(block).size());
        shared_.scheduler.add_idle(weak_from_this(), block, false);
      }
    }
    at = to;
  }
  if (!parked_.empty()) arrival.ready = take_ready({base::align_down(from, kPageBytes), progress}, &part);
  return arrival;
}

void SourceFileImpl::take_in(Arrival arrival) {
  for (const auto& request : arrival.lost) request->cancel();
  if (arrival.start_saving) shared_.post([self = shared_from_this()] { self->run_saves(); });
  deliver_all(std::move(arrival.ready));
}

bool SourceFileImpl::wants_anything(Cause cause) {
  std::lock_guard lock(mutex_);
  const auto& wants = wants_[index_of(cause)];
  return std::any_of(wants.begin(), wants.end(),
                     [&](const auto& wanted) { return next_missing(wanted.begin, wanted.end) < wanted.end; });
}

std::optional<SourceFileImpl::Standing> SourceFileImpl::standing_of(const Part& part) {
  std::lock_guard lock(mutex_);
  if (part.legs.empty() || part.urgency == Cause::kDemand || part.preempted || part.unwanted ||
      part.progress >= part.range.end || overlaps_parked(part.range)) {
    return std::nullopt;
  }
  return Standing{part.urgency, part.progress - part.range.begin};
}

std::vector<store::RequestHandle> SourceFileImpl::preempt(Part& part) {
  std::vector<store::RequestHandle> requests;
  std::lock_guard lock(mutex_);
  part.preempted = true;
  part.give_up_legs(requests);
  shared_.metrics.preempted.add();
  return requests;
}

SourceFileImpl::Lateness SourceFileImpl::lateness(const Part& part, base::SteadyTime now, const Tail::Limits& limits) {
  std::lock_guard lock(mutex_);
  if (part.hedged || part.preempted || part.unwanted || part.legs.size() != 1 || part.progress >= part.range.end)
    return Lateness::kOnTime;
  if (now - std::max(part.started, part.heard) <= limits.silence) {
    if (part.begun == base::SteadyTime{}) return Lateness::kOnTime;
    const auto body = limits.silence + limits.per_mebibyte * part.range.size() / (1 << 20);
    if (now - part.begun <= body) return Lateness::kOnTime;
  }
  if (overlaps_parked(part.range)) return Lateness::kWaitedFor;
  // Nobody waits for a guess, and it is not known who will.
  return part.urgency <= Cause::kReadahead && handles_ > 0 ? Lateness::kAhead : Lateness::kOnTime;
}

bool SourceFileImpl::start_second_leg(const std::shared_ptr<Part>& part) {
  std::shared_ptr<Leg> leg;
  store::GetOptions get;
  {
    std::lock_guard turn(part->turn);
    std::lock_guard lock(mutex_);
    if (stopped_ || changed_ || part->hedged || part->preempted || part->unwanted || part->legs.size() != 1 ||
        part->progress >= part->range.end) {
      return false;
    }
    part->hedged = part->contested = true;
    get.range = part->left();
    leg = std::make_shared<Leg>(part, get.range.begin, shared_.env.clock.now(), true);
    part->legs.push_back(leg);
    get.key = info_.key;
    get.expect = info_;
    get.priority = overlaps_parked(part->range) ? store::Priority::kDemand : priority_of(part->urgency);
    get.deadline = shared_.options.demand_deadline;
    shared_.metrics.hedged.add();
  }
  start_leg(leg, std::move(get));
  return true;
}

}  // namespace shardfs::fetch
