// Turn: lets one thread at a time do a piece of work; the others wait for it without holding a lock.
// Thread rule: thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

namespace shardfs::cache {

class Turn {
 public:
  /// Holds the turn while it lives.
  class Held {
   public:
    explicit Held(Turn& turn) : turn_(turn) {
      std::unique_lock lock(turn_.mutex_);
      turn_.free_.wait(lock, [&] { return !turn_.taken_; });
      turn_.taken_ = true;
    }
    ~Held() {
      {
        const std::lock_guard guard(turn_.mutex_);
        turn_.taken_ = false;
      }
      turn_.free_.notify_one();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Turn& turn_;
  };

 private:
  std::mutex mutex_;  // guards taken_
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace shardfs::cache
