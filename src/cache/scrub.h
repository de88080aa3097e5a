// Scrub: checks all blocks of the folder in the background, again and again, with at most a twentieth of the disk's
// time: after each block it sleeps nineteen times as long as the block took. One mount of a folder does it at a time.
// Thread rule: owns its thread; the destructor ends it within one block.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "cache/core.h"

namespace shardfs::cache {

class Scrub {
 public:
  explicit Scrub(std::shared_ptr<Core> core);
  ~Scrub();

  /// After a block that took so long.
  static constexpr base::SteadyTime::duration pause_after(base::SteadyTime::duration took) { return 19 * took; }

 private:
  void run() noexcept;
  /// A pass over everything. False: it was told to stop.
  bool pass();
  bool sleep(base::SteadyTime::duration duration);

  const std::shared_ptr<Core> core_;
  std::mutex mutex_;  // guards stop_
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace shardfs::cache
