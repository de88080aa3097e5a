#include "s3/admission.h"

#include <algorithm>
#include <chrono>

namespace shardfs::s3 {
namespace {

size_t index_of(store::Priority priority) { return static_cast<size_t>(priority); }

}  // namespace

Admission::Admission(unsigned most, base::Metrics& metrics)
    : received_bytes_(metrics.counter("store_received_bytes")),
      active_gauge_(metrics.gauge("store_connections_active")),
      limit_gauge_(metrics.gauge("store_connections_limit")),
      waiting_gauge_(metrics.gauge("store_requests_waiting")),
      refused_counter_(metrics.counter("store_requests_refused")),
      policy_(most) {
  slots_ = policy_.limit();
  limit_gauge_.set(policy_.limit());
}

ConnectionPolicy::Load Admission::load(base::SteadyTime now) const {
  const bool waiting = std::any_of(queues_.begin(), queues_.end(), [](const auto& queue) { return !queue.empty(); });
  return {now, active_, waiting, received_bytes_.value()};
}

bool Admission::may_start(store::Priority priority) const {
  const unsigned limit = policy_.limit();
  if (active_ >= limit) return false;
  if (priority == store::Priority::kDemand) return true;
  const unsigned reserve = std::min(std::max(2u, limit / 8), limit - 1);
  return active_predicted_ + reserve < limit;
}

bool Admission::ask(const std::shared_ptr<Waiter>& waiter, store::Priority priority, bool first, base::SteadyTime now) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    waiter->priority_ = priority;
    // Whoever waits at this priority or above could not start either, so nobody is overtaken.
    if (may_start(priority)) {
      ++active_;
      if (priority != store::Priority::kDemand) ++active_predicted_;
      active_gauge_.set(active_);
      return true;
    }
    auto& queue = queues_[index_of(priority)];
    waiter->place_ = queue.insert(first ? queue.begin() : queue.end(), waiter);
    waiter->waiting_ = true;
    waiting_gauge_.add(1);
    policy_.asked(load(now));
    granted = follow_policy();
  }
  notify(granted);
  return false;
}

bool Admission::withdraw(Waiter& waiter) {
  std::shared_ptr<Waiter> kept;  // not destroyed under the lock
  const std::lock_guard lock(mutex_);
  if (!waiter.waiting_) return false;
  kept = *waiter.place_;
  queues_[index_of(waiter.priority_)].erase(waiter.place_);
  waiter.waiting_ = false;
  waiting_gauge_.add(-1);
  return true;
}

void Admission::raise(const std::shared_ptr<Waiter>& waiter, store::Priority priority) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    if (!waiter->waiting_ || waiter->priority_ <= priority) return;
    auto& to = queues_[index_of(priority)];
    to.splice(to.end(), queues_[index_of(waiter->priority_)], waiter->place_);
    waiter->priority_ = priority;
    granted = take_startable();
  }
  notify(granted);
}

void Admission::release(Waiter& waiter) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    --active_;
    if (waiter.priority_ != store::Priority::kDemand) --active_predicted_;
    granted = take_startable();
    active_gauge_.set(active_);
  }
  notify(granted);
}

void Admission::answered(base::SteadyTime now, std::chrono::nanoseconds first_byte) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    answered_at_ = std::max(answered_at_, now);
    policy_.answered(load(now), first_byte);
    granted = follow_policy();
  }
  notify(granted);
}

void Admission::finished(base::SteadyTime now, uint64_t body_bytes, std::chrono::nanoseconds duration) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    policy_.finished(load(now), body_bytes, duration);
    granted = follow_policy();
  }
  notify(granted);
}

bool Admission::refused(base::SteadyTime now, base::SteadyTime sent) {
  refused_counter_.add();
  const std::lock_guard lock(mutex_);
  policy_.refused(load(now));
  follow_policy();
  return answered_at_ >= sent;
}

Admission::Queue Admission::follow_policy() {
  const unsigned limit = policy_.limit();
  const bool more = limit > slots_.exchange(limit, std::memory_order_relaxed);
  limit_gauge_.set(limit);
  if (!more) return {};
  Queue granted = take_startable();
  active_gauge_.set(active_);
  return granted;
}

Admission::Queue Admission::take_startable() {
  Queue out;
  for (auto& queue : queues_) {
    while (!queue.empty() && may_start(queue.front()->priority_)) {
      Waiter& waiter = *queue.front();
      waiter.waiting_ = false;
      ++active_;
      if (waiter.priority_ != store::Priority::kDemand) ++active_predicted_;
      waiting_gauge_.add(-1);
      out.splice(out.end(), queue, queue.begin());
    }
  }
  return out;
}

void Admission::notify(const Queue& granted) {
  for (const auto& waiter : granted) waiter->on_slot_granted();
}

}  // namespace shardfs::s3
