#include "cache/evictor.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "cache/count.h"
#include "cache/removal.h"

namespace shardfs::cache {
namespace {

// How old an answer about free space may be. Source: others fill a disk at a few GB/s at most.
constexpr std::chrono::milliseconds kSpaceFresh{100};

base::WallTime wall_of(int64_t ms) {
  return base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(std::chrono::milliseconds(ms)));
}

}  // namespace

Evictor::Floor Evictor::above_floor(uint64_t bytes) {
  const auto now = core_.clock.now();
  {
    const std::lock_guard guard(space_mutex_);
    const bool fresh = space_known_ && now - space_asked_ < kSpaceFresh;
    if (fresh && space_left_bytes_ >= core_.min_free_bytes + bytes) {
      space_left_bytes_ -= bytes;
      return Floor::kAbove;
    }
  }
  const auto space = core_.disk.space(core_.folder.path());
  const std::lock_guard guard(space_mutex_);
  space_known_ = space.has_value();
  if (!space) return Floor::kUnknown;
  space_asked_ = now;
  // What is reserved by this mount is not yet missing on the file system.
  const uint64_t owed = core_.budget->own_reserved_bytes();
  space_left_bytes_ = space->available_bytes > owed ? space->available_bytes - owed : 0;
  if (space_left_bytes_ < core_.min_free_bytes + bytes) return Floor::kBelow;
  space_left_bytes_ -= bytes;
  return Floor::kAbove;
}

bool Evictor::admits(uint64_t bytes, const store::ObjectId& newcomer) {
  if (!reserve(bytes, newcomer)) return false;
  release(bytes);
  return true;
}

bool Evictor::reserve(uint64_t bytes, const store::ObjectId& newcomer) {
  if (core_.health.failing() || bytes > core_.budget->limit_bytes()) return false;
  auto floor = Floor::kAbove;
  const auto try_once = [&] {
    floor = above_floor(bytes);
    return floor == Floor::kAbove && core_.budget->try_reserve(bytes);
  };
  bool got = try_once();
  while (!got) {
    if (floor == Floor::kUnknown) return false;  // the disk is gone; evicting would not help
    if (exhausted_for(policy_->set_of(newcomer))) return false;
    const Turn::Held turn(turn_);
    got = try_once();  // another thread may have made room meanwhile
    if (!got && floor == Floor::kBelow) warn_of_floor();
    if (!got && !evict_one(&newcomer)) return false;
    if (!got) got = try_once();
  }
  core_.reserved_gauge.set(static_cast<int64_t>(core_.budget->own_reserved_bytes()));
  return true;
}

void Evictor::warn_of_floor() const {
  base::warn_once("cache:full",  // as Health: that the disk is full is said once
                  "the file system of {} is too full ({} are to stay free): the cache keeps less, and reads go past it",
                  core_.folder.path(), base::format_bytes(core_.min_free_bytes));
}

void Evictor::release(uint64_t bytes) {
  core_.budget->release(bytes);
  core_.reserved_gauge.set(static_cast<int64_t>(core_.budget->own_reserved_bytes()));
}

bool Evictor::make_room(uint64_t bytes) {
  if (core_.health.failing() || bytes > core_.budget->limit_bytes()) return false;
  const Turn::Held turn(turn_);
  for (;;) {
    const auto floor = above_floor(bytes);
    if (floor == Floor::kUnknown) return false;
    if (floor == Floor::kAbove && core_.budget->try_reserve(bytes)) {
      release(bytes);
      return true;
    }
    if (!evict_one(nullptr)) return false;
  }
}

void Evictor::shrink_to_limit() {
  const Turn::Held turn(turn_);
  while (core_.budget->use().sum() > core_.budget->limit_bytes() && evict_one(nullptr)) {
  }
}

bool Evictor::exhausted_for(const std::string& set) {
  const std::lock_guard guard(exhausted_mutex_);
  if (closed_.exchange(false, std::memory_order_relaxed)) exhausted_until_.clear();
  const auto place = exhausted_until_.find(set);
  if (place == exhausted_until_.end()) return false;
  if (core_.clock.now() < place->second) return true;
  exhausted_until_.erase(place);
  return false;
}

bool Evictor::evict_one(const store::ObjectId* newcomer) {
  if (core_.budget->count_wanted() && count_again()) return true;
  const auto began = core_.clock.now();
  auto set = newcomer == nullptr ? std::string() : policy_->set_of(*newcomer);
  if (began - queue_made_ > kQueueFresh || set != queue_set_) {
    queue_.clear();
    last_asked_.reset();
    queue_set_ = set;
  }
  const bool from_the_oldest = queue_.empty() && !last_asked_;
  if (evict_next(newcomer)) return true;
  if (!from_the_oldest && evict_next(newcomer)) return true;  // some may have been let go since they were passed over
  mark_idle_dead(newcomer);
  // The index may lack files, or the figures may be wrong since somebody removed files by hand.
  if (count_again()) return true;
  const auto now = core_.clock.now();
  const std::lock_guard guard(exhausted_mutex_);
  exhausted_until_[std::move(set)] =
      now + std::max<base::SteadyTime::duration>(kExhaustedFor, kExhaustedTimes * (now - began));
  return false;
}

bool Evictor::evict_next(const store::ObjectId* newcomer) {
  do {
    while (!queue_.empty()) {
      const IndexRow row = std::move(queue_.front());
      queue_.pop_front();
      if (evict(row) == Removal::kRemoved) return true;
    }
  } while (refill(newcomer));
  return false;
}

Removal Evictor::evict(const IndexRow& row) {
  const Removed removed = remove_file(core_, row.key);
  if (removed.what == Removal::kGone) {
    core_.index->note_removed(row.key, row.last_use_ms);
    if (core_.disk.stat(core_.folder.path_of(row.key, FileKind::kMap))) core_.budget->want_count();
  }
  if (removed.what != Removal::kRemoved) return removed.what;
  core_.index->note_removed(row.key, row.last_use_ms);
  core_.evicted_files.add();
  core_.evicted_bytes.add(removed.bytes);
  const std::lock_guard guard(space_mutex_);
  space_known_ = false;
  return removed.what;
}

bool Evictor::refill(const store::ObjectId* newcomer) {
  static_cast<void>(core_.index->write());
  auto rows = core_.index->oldest(last_asked_, kCandidates);
  if (!rows || rows->empty()) {
    last_asked_.reset();
    return false;
  }
  last_asked_ = rows->back();
  queue_made_ = core_.clock.now();
  for (auto& row : in_order(std::move(*rows), newcomer)) queue_.push_back(std::move(row));
  return true;
}

std::vector<IndexRow> Evictor::in_order(std::vector<IndexRow> rows, const store::ObjectId* newcomer) {
  std::vector<Candidate> candidates;
  candidates.reserve(rows.size());
  for (const auto& row : rows) candidates.push_back({row.id, row.size_bytes, wall_of(row.last_use_ms)});
  std::vector<IndexRow> ordered;
  for (const size_t i : policy_->order(candidates, newcomer, core_.clock.wall_now())) {
    ordered.push_back(std::move(rows[i]));
  }
  return ordered;
}

bool Evictor::count_again() {
  const auto now = core_.clock.now();
  if (!core_.budget->count_wanted() && last_count_ && now - *last_count_ < kBetweenCounts) return false;
  last_count_ = now;
  const uint64_t before = core_.budget->use().sum();
  if (!count_folder(core_)) return false;
  return core_.budget->use().sum() < before;
}

void Evictor::mark_idle_dead(const store::ObjectId* newcomer) {
  auto rows = core_.index->oldest(std::nullopt, kCandidates);
  if (!rows) return;
  const int64_t idle_since = core_.wall_ms() - std::chrono::duration_cast<std::chrono::milliseconds>(kIdle).count();
  size_t marked = 0;
  for (const auto& row : in_order(std::move(*rows), newcomer)) {
    if (marked == kIdleAtOnce) return;
    if (row.last_use_ms <= idle_since && mark_open_file_dead(core_, row.key)) ++marked;
  }
}

}  // namespace shardfs::cache
