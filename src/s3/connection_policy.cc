#include "s3/connection_policy.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shardfs::s3 {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Source: of 64, 24 reach what one reader can take on the bench's store (30 ms, 90 MB/s each) from the first part on.
constexpr unsigned kStart = 24;
// An answer counts as so many bytes at least. Source: within a factor of two of what a connection of 30 to 90 MB/s
// carries in a round trip of 30 ms; only rounds of one mount are compared.
constexpr uint64_t kLeastWork = 1 << 20;
constexpr milliseconds kShortestRound{100};
constexpr milliseconds kLongestRound{1000};
// Of what a raise could bring at best, in the first round, and on the average of the first two and of all three. A
// rise by chance is less likely to last. With less than the last it is taken back.
constexpr std::array<double, 3> kWorthwhile{1.0 / 2, 1.0 / 3, 1.0 / 4};
constexpr double kSaturated = 3.0 / 4;  // of a round: somebody waited
constexpr seconds kFirstPause{1};
constexpr seconds kLongestPause{8};
constexpr double kForgivenAnAnswer = 1.0 / 20;
constexpr double kMostForgiven = 3;

}  // namespace

ConnectionPolicy::ConnectionPolicy(unsigned most)
    : most_(std::max(1u, most)),
      limit_(std::min(most_, kStart)),
      step_(limit_),
      pause_(kFirstPause),
      first_byte_(kShortestRound / 2) {}

uint64_t ConnectionPolicy::work(const Load& load) const { return load.received_bytes + small_work_; }

nanoseconds ConnectionPolicy::round_length() const {
  return std::clamp(std::max(2 * first_byte_, duration_), nanoseconds(kShortestRound), nanoseconds(kLongestRound));
}

void ConnectionPolicy::begin_round(base::SteadyTime not_before) {
  measuring_ = false;
  begin_ = not_before;
}

void ConnectionPolicy::observe(const Load& load) {
  if (!measuring_) return;
  if (load.now > seen_) {
    if (waiting_) waited_ += load.now - seen_;
    seen_ = load.now;
  }
  waiting_ = load.waiting;
  const nanoseconds elapsed = seen_ - begin_;
  if (elapsed < round_length()) return;
  const auto seconds_of = [](nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  const bool saturated = seconds_of(waited_) >= kSaturated * seconds_of(elapsed);
  const double work_per_s = static_cast<double>(work(load) - work_at_begin_) / seconds_of(elapsed);
  begin_round(load.now);
  if (saturated) {
    take_round(load, work_per_s);
  } else {  // it says nothing
    work_per_s_ = 0;
    raised_from_ = 0;
  }
}

void ConnectionPolicy::take_round(const Load& load, double work_per_s) {
  if (raised_from_ != 0) return judge_raise(load, work_per_s);
  work_per_s_ = work_per_s_ == 0 ? work_per_s : (work_per_s_ + work_per_s) / 2;
  if (limit_ < most_ && load.now >= raise_at_) raise(load.now);
}

void ConnectionPolicy::raise(base::SteadyTime now) {
  raised_from_ = limit_;
  rounds_ = 0;
  trial_sum_ = 0;
  limit_ += std::min(most_ - limit_, step_);
  begin_round(now + std::min<nanoseconds>(first_byte_, kLongestRound));  // until the new ones receive
}

void ConnectionPolicy::judge_raise(const Load& load, double work_per_s) {
  const double possible = static_cast<double>(limit_) / raised_from_ - 1;
  trial_sum_ += work_per_s;
  const double mean = trial_sum_ / (rounds_ + 1);
  if (mean >= work_per_s_ * (1 + kWorthwhile[rounds_] * possible)) {
    raised_from_ = 0;
    work_per_s_ = mean;
    step_ = std::min(2 * step_, most_);
    pause_ = kFirstPause;
    if (limit_ < most_) raise(load.now);
    return;
  }
  if (++rounds_ < kWorthwhile.size()) return;
  limit_ = std::exchange(raised_from_, 0);
  step_ = std::max(1u, limit_ / 4);
  raise_at_ = load.now + pause_;
  pause_ = std::min<nanoseconds>(2 * pause_, kLongestPause);
  begin_round(load.now + std::min<nanoseconds>(first_byte_, kLongestRound));
}

void ConnectionPolicy::answered(const Load& load, nanoseconds first_byte) {
  first_byte_ += (first_byte - first_byte_) / 8;
  forgiven_ = std::min(kMostForgiven, forgiven_ + kForgivenAnAnswer);
  observe(load);
  if (measuring_ || load.now < begin_) return;
  measuring_ = true;  // from an answer on: before the first one there is nothing to measure
  begin_ = seen_ = load.now;
  waiting_ = load.waiting;
  waited_ = {};
  work_at_begin_ = work(load);
}

void ConnectionPolicy::finished(const Load& load, uint64_t body_bytes, nanoseconds duration) {
  duration_ += (duration - duration_) / 8;
  small_work_ += kLeastWork - std::min(kLeastWork, body_bytes);
  observe(load);
}

void ConnectionPolicy::refused(const Load& load) {
  if (raised_from_ == 0 && forgiven_ >= 1) {
    forgiven_ -= 1;
    return;
  }
  // A raise that was refused, not a burst of refusals.
  if (std::exchange(raised_from_, 0) != 0) pause_ = std::min<nanoseconds>(2 * pause_, kLongestPause);
  raise_at_ = load.now + pause_;
  step_ = 1;
  const unsigned fewer = std::max(limit_ / 2, load.active == 0 ? 0 : load.active - 1);
  limit_ = std::max(1u, std::min(limit_ - 1, fewer));
  work_per_s_ = 0;
  begin_round(load.now + std::min<nanoseconds>(first_byte_, kLongestRound));
}

}  // namespace shardfs::s3
