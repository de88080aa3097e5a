#include "fs/parking.h"

#include <vector>

namespace shardfs::fs {

Claim::~Claim() {
  if (!parking_ || !counted_) return;
  std::lock_guard lock(parking_->mutex_);
  if (--parking_->answering_ == 0) parking_->idle_.notify_all();
}

ParkedOperation::ParkedOperation(std::shared_ptr<Parking> parking)
    : parking_(std::move(parking)), begun_(parking_->now()) {}

Claim ParkedOperation::claim() {
  State expected = kRunning;
  if (std::this_thread::get_id() == beginner_ && state_.compare_exchange_strong(expected, kClaimed)) {
    return {parking_, false};
  }
  if (parking_->claim_from_elsewhere(*this)) return {parking_, true};
  return {};
}

std::chrono::nanoseconds ParkedOperation::age() const { return parking_->now() - begun_; }

Claim Parking::enter() {
  std::lock_guard lock(mutex_);
  if (closed()) return {};
  ++answering_;
  return {shared_from_this(), true};
}

bool Parking::claim_from_elsewhere(ParkedOperation& operation) {
  std::shared_ptr<ParkedOperation> removed;  // destroyed after the lock
  std::lock_guard lock(mutex_);
  const auto before = operation.state_.exchange(ParkedOperation::kClaimed);
  if (before == ParkedOperation::kClaimed) return false;
  ++answering_;
  if (before == ParkedOperation::kParked) {
    const auto place = parked_.find(&operation);
    removed = std::move(place->second);
    parked_.erase(place);
    meters_.parked.add(-1);
    meters_.stall_time.record(clock_.now() - operation.begun_);
  }
  return true;
}

bool Parking::park(const std::shared_ptr<ParkedOperation>& operation) {
  {
    std::lock_guard lock(mutex_);
    auto expected = ParkedOperation::kRunning;
    if (!closed()) {
      if (!operation->state_.compare_exchange_strong(expected, ParkedOperation::kParked)) return false;
      parked_.emplace(operation.get(), operation);
      meters_.parked.add(1);
      return true;
    }
  }
  if (const Claim claim = operation->claim()) operation->answer_error(EIO);
  return false;
}

void Parking::shut_down() {
  std::vector<std::shared_ptr<ParkedOperation>> left;
  {
    std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    left.reserve(parked_.size());
    for (const auto& [key, operation] : parked_) left.push_back(operation);
  }
  for (const auto& operation : left) {
    if (const Claim claim = operation->claim()) operation->answer_error(EIO);
  }
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return answering_ == 0; });
}

}  // namespace shardfs::fs
