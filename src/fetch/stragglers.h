// Stragglers: parts that are later than the store's usual tail are asked for a second time, within a budget.
// Not who wins: that is decided where the bytes arrive (part.h).
// Thread rule: thread-safe; mutex_ is a leaf. It looks every 10 ms on the timer's thread, while parts are under way.
#pragma once

#include <mutex>
#include <optional>

#include "base/executor.h"
#include "fetch/tail.h"

namespace shardfs::fetch {

struct Shared;

class Stragglers {
 public:
  explicit Stragglers(Shared& shared) : shared_(shared) {}

  void part_started();
  /// An answer that came whole. No body: the first byte says all.
  void answered(std::chrono::nanoseconds first_byte, uint64_t body_bytes, std::chrono::nanoseconds body);
  /// Nothing is looked at after the timer's running task.
  void stop();

 private:
  void schedule_tick();
  void tick();
  bool take_token(unsigned kept);

  Shared& shared_;
  std::mutex mutex_;  // guards all below
  Tail tail_;
  unsigned parts_ = 0;    // started and not used up yet; each second request takes some
  bool started_ = false;  // a part, since the last tick began
  bool ticking_ = false;
  bool stopped_ = false;
  base::TimerId tick_ = 0;
};

}  // namespace shardfs::fetch
