// DemoSteps: shows on standard error what the demo does and for how long; and Interrupt, which tells it to stop.
// Thread rule: confined to the main thread; Interrupt's flag and descriptor may be read by any.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "base/unique_fd.h"

namespace shardfs::app {

/// "[2/7] mount ... 0.2 s": one line a step; on a terminal it grows while the step runs.
class DemoSteps {
 public:
  explicit DemoSteps(unsigned count);
  void begin(const std::string& what);
  /// What is known of the step now: "40 %". Shown on a terminal, a few times a second at most.
  void tick(const std::string& detail = {});
  void end();
  /// The step did not end well; its line is closed.
  void abandon();

 private:
  double elapsed_s() const;

  const unsigned count_;
  const bool terminal_;
  unsigned number_ = 0;
  bool running_ = false;
  std::string what_;
  std::string detail_;
  std::chrono::steady_clock::time_point start_, shown_;
};

/// While one lives, SIGINT, SIGTERM and SIGHUP set its flag instead of ending the process. Only one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>& flag() const;
  /// Becomes readable, and stays so.
  int descriptor() const { return read_end_.get(); }

 private:
  base::UniqueFd read_end_, write_end_;
};

}  // namespace shardfs::app
