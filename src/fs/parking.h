// Parking: the operations that wait for somebody else's answer, and the rule that each is answered exactly once: by
// that answer, by a cancel, or by the end of the mount, whichever claims it first. Thread rule: thread-safe. Answers
// run under no lock. An operation answered within the call that began it takes no lock. Lifetime: operations share it,
// so a claim that comes after the end of the mount is harmless; what the answers use (the meters, the file system) must
// live until shut_down has returned.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "fs/file_system.h"
#include "fs/meters.h"

namespace shardfs::fs {

class Parking;

/// The right, and the duty, to answer one operation. While it lives, shut_down does not return.
class Claim {
 public:
  Claim() = default;
  Claim(std::shared_ptr<Parking> parking, bool counted) : parking_(std::move(parking)), counted_(counted) {}
  Claim(Claim&& other) noexcept = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();
  explicit operator bool() const { return parking_ != nullptr; }

 private:
  std::shared_ptr<Parking> parking_;  // null: somebody else answers
  bool counted_ = false;              // in Parking::answering_
};

class ParkedOperation {
 public:
  explicit ParkedOperation(std::shared_ptr<Parking> parking);
  virtual ~ParkedOperation() = default;
  Claim claim();
  /// Requires: claimed by the caller.
  virtual void answer_error(int error) = 0;
  std::chrono::nanoseconds age() const;

 protected:
  const std::shared_ptr<Parking> parking_;
  const base::SteadyTime begun_;

 private:
  friend class Parking;
  enum State : int { kRunning, kParked, kClaimed };
  std::atomic<State> state_{kRunning};
  const std::thread::id beginner_ = std::this_thread::get_id();
};

class Parking : public std::enable_shared_from_this<Parking> {
 public:
  Parking(const base::Clock& clock, Meters& meters) : clock_(clock), meters_(meters) {}
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// For a call that is no operation: while the claim lives, shut_down does not return. Empty when the mount ends.
  Claim enter();
  /// At the end of the call that began it. False: it has been answered.
  bool park(const std::shared_ptr<ParkedOperation>& operation);
  base::SteadyTime now() const { return clock_.now(); }
  Meters& meters() { return meters_; }
  /// Answers all with EIO. Returns when no other thread writes an answer any more.
  void shut_down();

 private:
  friend class ParkedOperation;
  friend class Claim;
  bool claim_from_elsewhere(ParkedOperation& operation);

  const base::Clock& clock_;
  Meters& meters_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  std::unordered_map<const ParkedOperation*, std::shared_ptr<ParkedOperation>> parked_;
  int answering_ = 0;  // claims of threads that are not within the call that began the operation
};

template <class T>
class Operation final : public ParkedOperation {
 public:
  using Done = std::function<void(Reply<T>)>;
  /// Null, and answered with EIO, when the mount ends.
  static std::shared_ptr<Operation> begin(const std::shared_ptr<Parking>& parking, Done done) {
    if (!parking->closed()) return std::make_shared<Operation>(parking, std::move(done));
    parking->meters().count_error(EIO);
    done({EIO, {}});
    return nullptr;
  }
  Operation(std::shared_ptr<Parking> parking, Done done)
      : ParkedOperation(std::move(parking)), done_(std::move(done)) {}

  /// Requires: claimed by the caller.
  void answer(Reply<T> reply) {
    if (reply.error != 0) parking_->meters().count_error(reply.error);
    std::exchange(done_, nullptr)(std::move(reply));
  }
  void answer_error(int error) override { answer({error, {}}); }

 private:
  Done done_;
};

/// Claims it and answers EINTR.
template <class T>
Cancel cancel_of(std::shared_ptr<Operation<T>> operation) {
  return [operation = std::move(operation)] {
    if (const Claim claim = operation->claim()) operation->answer_error(EINTR);
  };
}

}  // namespace shardfs::fs
