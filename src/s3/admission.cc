#include "s3/admission.h"

#include <algorithm>
#include <chrono>

namespace shardfs::s3 {
namespace {

// Source: mountpoint-s3#574 and s3fs#603 (speed that never came back; retries that kept the store throttled).
constexpr std::chrono::seconds kLowerEvery{1};
constexpr std::chrono::milliseconds kRaiseEvery{100};

size_t index_of(store::Priority priority) { return static_cast<size_t>(priority); }

}  // namespace

Admission::Admission(unsigned limit, base::Metrics& metrics)
    : full_limit_(std::max(1u, limit)),
      reserve_(std::min(std::max(2u, full_limit_ / 8), full_limit_ - 1)),
      active_gauge_(metrics.gauge("store_connections_active")),
      limit_gauge_(metrics.gauge("store_connections_limit")),
      waiting_gauge_(metrics.gauge("store_requests_waiting")),
      limit_(full_limit_) {
  limit_gauge_.set(limit_);
}

bool Admission::may_start(store::Priority priority) const {
  if (active_ >= limit_) return false;
  if (priority == store::Priority::kDemand) return true;
  return active_predicted_ + reserve_ < std::max(limit_, reserve_ + 1);
}

bool Admission::ask(const std::shared_ptr<Waiter>& waiter, store::Priority priority, bool first) {
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

void Admission::slow_down(base::SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (lowered_at_ != base::SteadyTime{} && now - lowered_at_ < kLowerEvery) return;
  lowered_at_ = raised_at_ = now;
  limit_ = std::max(1u, std::min(limit_, std::max(1u, active_)) / 2);
  limit_gauge_.set(limit_);
}

void Admission::speed_up(base::SteadyTime now) {
  Queue granted;
  {
    const std::lock_guard lock(mutex_);
    if (limit_ == full_limit_ || now - raised_at_ < kRaiseEvery) return;
    raised_at_ = now;
    limit_ = std::min(full_limit_, limit_ + std::max(1u, full_limit_ / 16));
    limit_gauge_.set(limit_);
    granted = take_startable();
    active_gauge_.set(active_);
  }
  notify(granted);
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
