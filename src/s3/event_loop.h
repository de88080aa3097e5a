// EventLoop: one thread with one libcurl multi handle, driven by epoll.
// Not a limit: who may start a transfer is decided by Admission.
// Thread rule: post is thread-safe; all else is confined to the loop's own thread.
// It owns the thread, the multi handle with its kept connections, and the easy handles.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/unique_fd.h"
#include "s3/bandwidth_limit.h"
#include "s3/transfer.h"

namespace shardfs::s3 {

/// A moment at which the loop calls back. Must be disarmed before it is destroyed.
class LoopTimer {
 public:
  virtual ~LoopTimer() = default;
  virtual void on_timer() noexcept = 0;

 private:
  friend class EventLoop;
  base::SteadyTime at_{};
  bool armed_ = false;
};

class EventLoop {
 public:
  /// All arguments outlive the loop. Errors: kNoMemory.
  static base::Result<std::unique_ptr<EventLoop>> make(unsigned index, const TransportOptions& options,
                                                       BandwidthLimit& bandwidth, base::Counter& received_bytes,
                                                       base::Clock& clock);
  /// Ends the thread. Requires: no transfer, no armed timer.
  ~EventLoop();

  /// Runs the task on the loop's thread; never inside this call.
  void post(std::function<void()> task);

  /// Null: libcurl refused it.
  Transfer* start(const TransferRequest& request, TransferHandler& handler);
  /// Ends it without a further call to its handler. Requires: not inside one of the handler's calls.
  void stop(Transfer* transfer);
  void arm(LoopTimer& timer, base::SteadyTime at);
  void disarm(LoopTimer& timer);
  /// Called by a transfer before it hands bytes on; false: it must pause, and is resumed when the limit allows it.
  bool may_take(Transfer& transfer, size_t bytes);
  /// As of the loop's last wake-up.
  base::SteadyTime now() const { return now_; }

 private:
  struct Callbacks;  // libcurl's, in the source
  EventLoop(unsigned index, const TransportOptions& options, BandwidthLimit& bandwidth, base::Counter& received_bytes,
            base::Clock& clock);
  bool set_up();
  void run() noexcept;
  void wait_for_events();
  void run_tasks();
  void run_timers();
  void run_ends();
  void resume_paused();
  void drive(int fd, int events);
  int wait_ms(base::SteadyTime now) const;

  const unsigned index_;
  const TransportOptions& options_;
  BandwidthLimit& bandwidth_;
  base::Counter& received_bytes_;
  base::Clock& clock_;
  base::UniqueFd epoll_;
  base::UniqueFd wake_;  // eventfd
  void* multi_ = nullptr;

  std::mutex inbox_mutex_;  // guards inbox_
  std::vector<std::function<void()>> inbox_;

  // The loop's thread only:
  bool stop_ = false;
  std::vector<std::function<void()>> tasks_;
  std::set<std::pair<base::SteadyTime, LoopTimer*>> timers_;
  std::vector<std::unique_ptr<Transfer>> active_;  // few: a search is cheaper than a table
  std::vector<std::unique_ptr<Transfer>> idle_;
  std::deque<Transfer*> paused_;  // by the bandwidth limit
  base::SteadyTime now_{};
  base::SteadyTime curl_timer_{};
  bool curl_timer_armed_ = false;
  uint64_t received_ = 0;  // not yet in the counter

  std::thread thread_;
};

}  // namespace shardfs::s3
