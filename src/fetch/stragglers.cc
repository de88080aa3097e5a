#include "fetch/stragglers.h"

#include <algorithm>

#include "fetch/shared.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

constexpr std::chrono::milliseconds kTick{10};
constexpr std::chrono::milliseconds kNever = std::chrono::hours(24);
// Second requests, at most: one of twenty parts, and so many at once after a quiet time. Source: the design's "within a
// budget"; stores with a bad tail have one late answer of a hundred.
constexpr unsigned kPartsASecondLeg = 20;
constexpr unsigned kMostAtOnce = 8;
// Those left for parts that a reader waits for, when one is only late.
constexpr unsigned kKeptForWaiting = 1;

}  // namespace

void Stragglers::part_started() {
  std::lock_guard lock(mutex_);
  parts_ = std::min(kMostAtOnce * kPartsASecondLeg, parts_ + 1);
  started_ = true;
  if (!ticking_) schedule_tick();
}

void Stragglers::answered(std::chrono::nanoseconds first_byte, uint64_t body_bytes, std::chrono::nanoseconds body) {
  std::lock_guard lock(mutex_);
  tail_.add_first_byte(first_byte);
  tail_.add_body(body_bytes, body);
}

void Stragglers::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  shared_.env.timer.cancel(tick_);
}

void Stragglers::schedule_tick() {
  ticking_ = !stopped_;
  if (ticking_) tick_ = shared_.env.timer.schedule(kTick, [this] { tick(); });
}

bool Stragglers::take_token(unsigned kept) {
  std::lock_guard lock(mutex_);
  if (parts_ < (1 + kept) * kPartsASecondLeg) return false;
  parts_ -= kPartsASecondLeg;
  return true;
}

void Stragglers::tick() {
  std::optional<Tail::Limits> limits;
  {
    std::lock_guard lock(mutex_);
    started_ = false;
    limits = tail_.limits();
    if (limits)
      limits->silence =
          std::max<std::chrono::nanoseconds>(limits->silence, std::min(shared_.options.late_after, kNever));
  }
  const auto parts = shared_.scheduler.started();
  if (limits) {
    const auto now = shared_.env.clock.now();
    std::vector<std::shared_ptr<Part>> waited_for, ahead;
    for (const auto& part : parts) {
      switch (part->file->lateness(*part, now, *limits)) {
        case SourceFileImpl::Lateness::kOnTime: break;
        case SourceFileImpl::Lateness::kWaitedFor: waited_for.push_back(part); break;
        case SourceFileImpl::Lateness::kAhead: ahead.push_back(part); break;
      }
    }
    for (const auto* late : {&waited_for, &ahead}) {
      const unsigned kept = late == &ahead ? kKeptForWaiting : 0;
      for (const auto& part : *late) {
        if (!shared_.scheduler.begin_second_leg()) break;
        const bool started = take_token(kept) && part->file->start_second_leg(part);
        if (!started) shared_.scheduler.second_leg_ended();
      }
    }
  }
  std::lock_guard lock(mutex_);
  if (parts.empty() && !started_) {
    ticking_ = false;
  } else {
    schedule_tick();
  }
}

}  // namespace shardfs::fetch
