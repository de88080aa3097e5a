// Admission: which waiting request is next on the wire, when there is a slot. ConnectionPolicy says how many there are.
// Not the connections themselves: libcurl keeps those.
// Thread rule: thread-safe; no callback runs under its lock. It owns nothing but the counts and the queues.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/metrics.h"
#include "s3/connection_policy.h"
#include "store/object_store.h"

namespace shardfs::s3 {

class Admission {
 public:
  /// One that may wait for a slot.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    /// The slot is the waiter's now. On any thread that released one; must only post.
    virtual void on_slot_granted() noexcept = 0;

   private:
    friend class Admission;
    std::list<std::shared_ptr<Waiter>>::iterator place_;
    store::Priority priority_ = store::Priority::kDemand;  // while waiting: its queue; then: what it was granted as
    bool waiting_ = false;
  };

  /// most: at least 1. Of the slots there are, max(2, limit / 8) are kept for demand (never all). It reads the metric
  /// store_received_bytes.
  Admission(unsigned most, base::Metrics& metrics);

  /// True: granted at once, without a callback; false: the callback follows, maybe at once. first: ahead of its equals
  /// (it was granted before).
  bool ask(const std::shared_ptr<Waiter>& waiter, store::Priority priority, bool first, base::SteadyTime now);
  /// True: it waits no more. False: it has a slot, or on_slot_granted is on its way.
  bool withdraw(Waiter& waiter);
  /// No effect unless it waits behind that priority.
  void raise(const std::shared_ptr<Waiter>& waiter, store::Priority priority);
  /// Gives a granted slot back.
  void release(Waiter& waiter);
  /// Before a release, when the request was answered: see ConnectionPolicy.
  void answered(base::SteadyTime now, std::chrono::nanoseconds first_byte);
  void finished(base::SteadyTime now, uint64_t body_bytes, std::chrono::nanoseconds duration);
  /// Before the release, when the store refused the request. sent: then. True: others were answered since, so it was
  /// only one too many.
  bool refused(base::SteadyTime now, base::SteadyTime sent);
  /// Slots now: more requests at once only wait for each other.
  unsigned limit() const { return slots_.load(std::memory_order_relaxed); }

 private:
  using Queue = std::list<std::shared_ptr<Waiter>>;
  ConnectionPolicy::Load load(base::SteadyTime now) const;
  bool may_start(store::Priority priority) const;
  /// After a call of the policy: takes its limit over.
  Queue follow_policy();
  /// Moves all that may start out of the queues.
  Queue take_startable();
  static void notify(const Queue& granted);

  const base::Counter& received_bytes_;
  base::Gauge& active_gauge_;
  base::Gauge& limit_gauge_;
  base::Gauge& waiting_gauge_;
  base::Counter& refused_counter_;
  std::atomic<unsigned> slots_;  // the policy's limit

  std::mutex mutex_;  // guards all below, and the waiters' fields
  ConnectionPolicy policy_;
  std::array<Queue, 3> queues_;
  unsigned active_ = 0;
  unsigned active_predicted_ = 0;  // of them: not demand
  base::SteadyTime answered_at_{};
};

}  // namespace shardfs::s3
