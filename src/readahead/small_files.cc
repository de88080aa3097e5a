#include "readahead/small_files.h"

#include <algorithm>

namespace shardfs::readahead {
namespace {

// Opens that should have found their file before it is judged whether they do. Source: chance is rarely off by a factor
// of four over so many.
constexpr double kJudgedFrom = 32;
constexpr double kLeastYield = 0.25;
// Both counts are halved here, so that a new epoch is judged anew.
constexpr double kRemembered = 1024;

}  // namespace

SmallFiles::SmallFiles(size_t files, SmallFileLimits limits)
    : limits_(limits), settled_(files), unopened_(files), opened_(files) {}

SmallFiles::Open SmallFiles::on_open(size_t index, bool resident) {
  follow(index);
  settled_[index] = true;
  if (unopened_[index]) {
    lost(index);
    opened_[index] = true;
    ++opened_count_;
    return Open::kForeseen;
  }
  if (opened_[index]) {
    if (!resident) note_again(index);
    return Open::kNeutral;
  }
  opened_[index] = true;
  ++opened_count_;
  if (resident) return Open::kNeutral;
  if (++missed_ >= limits_.opens) whole_ = true;
  return Open::kMissed;
}

void SmallFiles::follow(size_t index) {
  ++tick_;
  Run* nearest = nullptr;
  size_t nearest_distance = limits_.run_reach + 1;
  for (Run& run : runs_) {
    const size_t distance = index >= run.next ? index - run.next : run.next - index;
    if (distance < nearest_distance) {
      nearest = &run;
      nearest_distance = distance;
    }
  }
  if (nearest == nullptr) {
    if (runs_.size() < limits_.runs) {
      nearest = &runs_.emplace_back();
    } else {
      nearest =
          &*std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.used < b.used; });
    }
    *nearest = Run{index, index + 1, 1, index + 1, tick_};
    return;
  }
  nearest->used = tick_;
  if (nearest->next == index + 1) return;  // the same once more
  nearest->begin = std::min(nearest->begin, index);
  ++nearest->opens;
  nearest->next = std::max(nearest->next, index + 1);
}

bool SmallFiles::in_order(const Run& run) const {
  // Opens at random come near each other now and then, but fill no gaps.
  return run.opens >= limits_.steps && 2 * run.opens >= run.next - run.begin;
}

std::optional<size_t> SmallFiles::next(bool may_pull) {
  const size_t files = settled_.size();
  for (size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[(turn_ + i) % runs_.size()];
    if (!in_order(run)) continue;
    const size_t end = std::min(files, run.next + std::min(limits_.run_ahead, run.opens * run.opens));
    for (run.wanted = std::max(run.wanted, run.next); run.wanted < end; ++run.wanted) {
      if (settled_[run.wanted]) continue;
      settled_[run.wanted] = true;
      turn_ = (turn_ + i + 1) % runs_.size();
      return run.wanted++;
    }
  }
  if (!whole_ || !may_pull) return std::nullopt;
  while (cursor_ < files && settled_[cursor_]) ++cursor_;
  if (cursor_ >= files) return std::nullopt;
  settled_[cursor_] = true;
  return cursor_++;
}

void SmallFiles::fetching(size_t index) {
  if (opened_[index] || unopened_[index]) return;  // a reader was faster
  unopened_[index] = true;
  ++unopened_count_;
}

void SmallFiles::lost(size_t index) {
  if (!unopened_[index]) return;
  unopened_[index] = false;
  --unopened_count_;
}

double SmallFiles::coverage() const {
  const size_t left = settled_.size() - opened_count_;
  return left == 0 ? 0 : static_cast<double>(unopened_count_) / static_cast<double>(left);
}

void SmallFiles::note_again(size_t index) {
  // Several readers open the same files; only where all that is left was given out would it cost much to begin again.
  if (++again_ <= (cursor_ > 0 ? std::max(limits_.opens, opened_count_ / 2) : limits_.opens)) return;
  std::fill(opened_.begin(), opened_.end(), false);
  settled_ = unopened_;
  opened_[index] = settled_[index] = true;
  for (Run& run : runs_) run.wanted = run.next;
  opened_count_ = 1;
  again_ = cursor_ = 0;
}

void SiblingOpens::on_missed(size_t sibling) {
  ++opens_;
  if (seen_.size() >= limits_.siblings) return;
  if (std::find(seen_.begin(), seen_.end(), sibling) == seen_.end()) seen_.push_back(sibling);
}

void SmallFileYield::on_open(SmallFiles::Open open, uint64_t bytes, double coverage) {
  if (open == SmallFiles::Open::kNeutral) return;
  ++opens_;
  opened_bytes_ += bytes;
  expected_ += coverage;
  if (open == SmallFiles::Open::kForeseen) {
    found_ += 1;
    on_lost(bytes);
  }
  if (std::max(expected_, found_) > kRemembered) {
    expected_ /= 2;
    found_ /= 2;
  }
}

void SmallFileYield::on_fetch(uint64_t bytes) {
  ++unopened_files_;
  unopened_bytes_ += bytes;
}

void SmallFileYield::on_lost(uint64_t bytes) {
  unopened_files_ -= std::min<uint64_t>(unopened_files_, 1);
  unopened_bytes_ -= std::min(unopened_bytes_, bytes);
}

bool SmallFileYield::worthwhile() const {
  if (expected_ >= kJudgedFrom && found_ < kLeastYield * expected_) return false;
  return unopened_files_ < limits_.unopened_files + limits_.unopened_files_per_open * opens_ &&
         unopened_bytes_ < limits_.unopened_bytes + limits_.unopened_bytes_per_byte_opened * opened_bytes_;
}

}  // namespace shardfs::readahead
