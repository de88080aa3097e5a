#include "base/executor.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/log.h"

namespace shardfs::base {
namespace {

void run_task(Task& task) noexcept {
  try {
    task();
  } catch (const std::exception& error) {
    log_error("a task threw an exception, which it must not: {}", error.what());
    std::abort();
  } catch (...) {
    log_error("a task threw an exception, which it must not");
    std::abort();
  }
}

}  // namespace

ThreadPool::ThreadPool(std::string name, unsigned threads)
    : name_(std::move(name)), current_(std::max(1u, threads), 0) {
  threads_.reserve(current_.size());
  for (unsigned i = 0; i < current_.size(); ++i) threads_.emplace_back([this, i] { run(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::post(Task task) {
  std::lock_guard lock(mutex_);
  queue_.emplace_back(next_++, std::move(task));
  wake_.notify_one();
}

size_t ThreadPool::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() +
         static_cast<size_t>(std::count_if(current_.begin(), current_.end(), [](uint64_t n) { return n != 0; }));
}

void ThreadPool::drain() {
  std::unique_lock lock(mutex_);
  const uint64_t end = next_;
  idle_.wait(lock, [&] {
    return (queue_.empty() || queue_.front().first >= end) &&
           std::all_of(current_.begin(), current_.end(), [&](uint64_t n) { return n == 0 || n >= end; });
  });
}

void ThreadPool::run(unsigned index) {
  name_this_thread(name_.substr(0, 12) + "-" + std::to_string(index));
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto [number, task] = std::move(queue_.front());
    queue_.pop_front();
    current_[index] = number;
    lock.unlock();
    run_task(task);
    task = nullptr;  // what it captured is gone before the task counts as ended
    lock.lock();
    current_[index] = 0;
    idle_.notify_all();
  }
}

Timer::Timer(std::string name) : name_(std::move(name)) {
  thread_ = std::thread([this] { run(); });
}

Timer::~Timer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

TimerId Timer::schedule(std::chrono::nanoseconds after, Task task) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const SteadyTime due = after < SteadyTime::max() - now ? now + after : SteadyTime::max();
  std::lock_guard lock(mutex_);
  const TimerId id = next_id_++;
  const auto place = queue_.emplace(std::pair(due, id), std::move(task)).first;
  due_.emplace(id, due);
  if (place == queue_.begin()) wake_.notify_one();
  return id;
}

bool Timer::cancel(TimerId id) {
  Task dropped;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  const auto due = due_.find(id);
  if (due == due_.end()) return false;
  const auto place = queue_.find({due->second, id});
  dropped = std::move(place->second);
  queue_.erase(place);
  due_.erase(due);
  return true;
}

size_t Timer::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

void Timer::run() {
  name_this_thread(name_);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (queue_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto next = queue_.begin();
    const SteadyTime due = next->first.first;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (due > now) {
      // Never far ahead: some C libraries mistake a far deadline for one in the past.
      wake_.wait_until(lock, std::min(due, now + std::chrono::hours(1)));
      continue;
    }
    Task task = std::move(next->second);
    due_.erase(next->first.second);
    queue_.erase(next);
    lock.unlock();
    run_task(task);
    task = nullptr;
    lock.lock();
  }
}

void name_this_thread(const std::string& name) { ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace shardfs::base
