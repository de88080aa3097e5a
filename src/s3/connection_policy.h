// ConnectionPolicy: how many requests are worth having on the wire at once (decision 0010).
// Not who gets the slots: admission.h. No clock, no I/O, no thread: it is told the time and what happened.
// Thread rule: thread-compatible. Times may come slightly out of order, from several loops.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace shardfs::s3 {

class ConnectionPolicy {
 public:
  /// What is the case when something happens.
  struct Load {
    base::SteadyTime now{};
    unsigned active = 0;          // on the wire
    bool waiting = false;         // somebody waits for a slot
    uint64_t received_bytes = 0;  // since the start
  };

  /// most: at least 1.
  explicit ConnectionPolicy(unsigned most);
  unsigned limit() const { return limit_; }

  /// Somebody asked for a slot.
  void asked(const Load& load) { observe(load); }
  /// The head of an answer that is no refusal, that long after the request.
  void answered(const Load& load, std::chrono::nanoseconds first_byte);
  /// A request has ended that was answered, with a body of so many bytes, that long after it was sent.
  void finished(const Load& load, uint64_t body_bytes, std::chrono::nanoseconds duration);
  /// The store wants less: the limit goes down. load.active: with the one that was refused.
  void refused(const Load& load);

 private:
  /// Measures; the limit may go up, or a raise be taken back.
  void observe(const Load& load);
  void take_round(const Load& load, double work_per_s);
  void judge_raise(const Load& load, double work_per_s);
  void raise(base::SteadyTime now);
  /// Measures anew, not before that moment.
  void begin_round(base::SteadyTime not_before);
  std::chrono::nanoseconds round_length() const;
  uint64_t work(const Load& load) const;

  const unsigned most_;
  unsigned limit_;
  unsigned step_;  // of the next raise
  std::chrono::nanoseconds pause_;
  base::SteadyTime raise_at_{};          // not before
  std::chrono::nanoseconds first_byte_;  // smoothed
  std::chrono::nanoseconds duration_{};  // of whole requests, smoothed
  double forgiven_ = 1;                  // refusals that will not count
  uint64_t small_work_ = 0;              // what small answers count beyond their bytes

  // The round that is measured.
  bool measuring_ = false;
  base::SteadyTime begin_{};           // not measuring yet: not before
  base::SteadyTime seen_{};            // the last event
  bool waiting_ = false;               // since then
  std::chrono::nanoseconds waited_{};  // in this round: somebody waited
  uint64_t work_at_begin_ = 0;

  double work_per_s_ = 0;     // at this limit, smoothed; 0: not known
  unsigned raised_from_ = 0;  // the raise that is on trial; 0: none
  unsigned rounds_ = 0;       // of the trial
  double trial_sum_ = 0;      // of their work_per_s
};

}  // namespace shardfs::s3
