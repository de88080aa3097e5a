#include "fuse/workers.h"

#include <csignal>
#include <system_error>

#include "base/executor.h"
#include "base/log.h"
#include "fuse/libfuse.h"

namespace shardfs::fuse {
namespace {

int wake_signal() { return SIGRTMIN + 5; }

void do_nothing(int) {}

/// Without SA_RESTART: it must interrupt sem_wait.
void prepare_wake_signal() {
  struct sigaction action {};
  action.sa_handler = do_nothing;
  sigemptyset(&action.sa_mask);
  ::sigaction(wake_signal(), &action, nullptr);
}

}  // namespace

bool Workers::start(fuse_session* session, unsigned threads, std::function<void()> on_end) {
  prepare_wake_signal();
  session_ = session;
  on_end_ = std::move(on_end);
  ended_ = false;
  // The threads inherit it: the process's signals go to the thread that waits for them.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // see base/mapping.h
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool made = true;
  try {
    thread_ = std::thread([this, threads]() noexcept { run(threads); });
  } catch (const std::system_error&) {
    made = false;
    ended_ = true;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

void Workers::run(unsigned threads) {
  base::name_this_thread("fuse_loop");
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, wake_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, threads == 0 ? 1 : threads);
  fuse_loop_cfg_set_idle_threads(config, threads == 0 ? 1 : threads);
  const int result = fuse_session_loop_mt(session_, config);
  fuse_loop_cfg_destroy(config);
  if (result < 0) base::log_debug("the loop ended: {}", result);
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    by_kernel_ = !asked_;
    changed_.notify_all();
  }
  if (on_end_) on_end_();
}

bool Workers::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

bool Workers::ended_by_kernel() const {
  std::lock_guard lock(mutex_);
  return by_kernel_;
}

void Workers::wait_ended(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [this] { return ended_; });
}

void Workers::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    if (!ended_) asked_ = true;
    while (!ended_) {
      fuse_session_exit(session_);
      ::pthread_kill(thread_.native_handle(), wake_signal());
      changed_.wait_for(lock, std::chrono::milliseconds(5), [this] { return ended_; });
    }
  }
  thread_.join();
}

}  // namespace shardfs::fuse
