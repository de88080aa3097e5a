// Admission: how many requests may be on the wire at once, and which waiting one is next.
// Not the connections themselves: libcurl keeps those.
// Thread rule: thread-safe; no callback runs under its lock. It owns nothing but the counts and the queues.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/metrics.h"
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

  /// limit: at least 1. Of it, max(2, limit / 8) are kept for demand (never all).
  Admission(unsigned limit, base::Metrics& metrics);

  /// True: granted at once, without a callback. first: ahead of its equals (it was granted before).
  bool ask(const std::shared_ptr<Waiter>& waiter, store::Priority priority, bool first);
  /// True: it waits no more. False: it has a slot, or on_slot_granted is on its way.
  bool withdraw(Waiter& waiter);
  /// No effect unless it waits behind that priority.
  void raise(const std::shared_ptr<Waiter>& waiter, store::Priority priority);
  /// Gives a granted slot back.
  void release(Waiter& waiter);

  /// The store asked for less: halves the limit, at most once a second.
  void slow_down(base::SteadyTime now);
  /// The store answered: the limit recovers by a sixteenth each 100 ms.
  void speed_up(base::SteadyTime now);

 private:
  using Queue = std::list<std::shared_ptr<Waiter>>;
  bool may_start(store::Priority priority) const;
  /// Moves all that may start out of the queues.
  Queue take_startable();
  static void notify(const Queue& granted);

  const unsigned full_limit_;
  const unsigned reserve_;  // of the limit, for demand
  base::Gauge& active_gauge_;
  base::Gauge& limit_gauge_;
  base::Gauge& waiting_gauge_;

  std::mutex mutex_;  // guards all below, and the waiters' fields
  std::array<Queue, 3> queues_;
  unsigned limit_;
  unsigned active_ = 0;
  unsigned active_predicted_ = 0;  // of them: not demand
  base::SteadyTime lowered_at_{};
  base::SteadyTime raised_at_{};
};

}  // namespace shardfs::s3
