// Workers: the threads in libfuse's loop, and how the loop is ended from outside.
// libfuse's own exit flag is only looked at when a request comes or a signal interrupts the loop's thread; so stop()
// sends that thread one real-time signal (SIGRTMIN + 5, with an empty handler) until it has ended.
// Thread rule: confined to its owner; on_end runs on the loop's thread.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

struct fuse_session;

namespace shardfs::fuse {

class Workers {
 public:
  ~Workers() { stop(); }
  /// False: no thread could be made.
  bool start(fuse_session* session, unsigned threads, std::function<void()> on_end);
  bool ended() const;
  /// The mount or its connection is gone; nobody asked the loop to end.
  bool ended_by_kernel() const;
  void wait_ended(std::chrono::milliseconds at_most);
  /// Returns when no worker runs any more.
  void stop();

 private:
  void run(unsigned threads);

  fuse_session* session_ = nullptr;
  std::function<void()> on_end_;
  std::thread thread_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool ended_ = true;
  bool asked_ = false;
  bool by_kernel_ = false;
};

}  // namespace shardfs::fuse
