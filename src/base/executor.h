// Threads that run tasks now (ThreadPool) or later (Timer).
// Not for work that waits for the network: that is the store's own loop.
// Thread rule: thread-safe. Both own their threads; the destructor runs what is queued (pool) or drops it (timer),
// then joins. An exception out of a task ends the process with a message: tasks are noexcept by contract.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace shardfs::base {

using Task = std::function<void()>;

class Executor {
 public:
  virtual ~Executor() = default;
  /// Never blocks, never runs the task before it returns unless the executor is an inline one of a test.
  virtual void post(Task task) = 0;
};

class ThreadPool final : public Executor {
 public:
  /// name: at most 12 characters, shown by ps -T.
  ThreadPool(std::string name, unsigned threads);
  ~ThreadPool() override;
  void post(Task task) override;
  /// Tasks queued and running.
  size_t pending() const;
  /// Returns when every task posted before the call has ended; later ones are not waited for.
  /// Requires: not called from a task of this pool.
  void drain();

 private:
  void run(unsigned index);

  const std::string name_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::pair<uint64_t, Task>> queue_;  // numbered in the order of post, from 1
  std::vector<uint64_t> current_;                // by thread: the number of the task it runs, 0 when idle
  uint64_t next_ = 1;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

using TimerId = uint64_t;

class Timer {
 public:
  explicit Timer(std::string name);
  ~Timer();
  /// Runs the task on the timer's own thread, not before `after`. Tasks must be short.
  TimerId schedule(std::chrono::nanoseconds after, Task task);
  /// True if the task had not started; false if it ran, runs, or is unknown.
  bool cancel(TimerId id);
  size_t pending() const;

 private:
  void run();

  const std::string name_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::map<std::pair<SteadyTime, TimerId>, Task> queue_;
  std::map<TimerId, SteadyTime> due_;
  TimerId next_id_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

/// Names the calling thread (at most 15 characters, cut).
void name_this_thread(const std::string& name);

}  // namespace shardfs::base
