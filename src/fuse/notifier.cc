#include "fuse/notifier.h"

#include <cerrno>

#include "base/executor.h"
#include "fuse/libfuse.h"

namespace shardfs::fuse {
namespace {

int forget_name(fuse_session* session, uint64_t parent, const std::string& name) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  const int error = fuse_lowlevel_notify_expire_entry(session, parent, name.data(), name.size());
#else
  const int error = fuse_lowlevel_notify_expire_entry(session, parent, name.data(), name.size(), FUSE_LL_EXPIRE_ONLY);
#endif
  if (error != -ENOSYS) return error;
  return fuse_lowlevel_notify_inval_entry(session, parent, name.data(), name.size());
}

}  // namespace

Notifier::Notifier(base::Metrics& metrics)
    : sent_(metrics.counter("fuse_notifications", "sent")),
      dropped_(metrics.counter("fuse_notifications", "dropped")),
      queued_(metrics.gauge("fuse_queued_notifications")) {}

void Notifier::start(fuse_session* session) {
  std::lock_guard lock(mutex_);
  running_ = true;
  thread_ = std::thread([this, session]() noexcept { run(session); });
}

void Notifier::expire(uint64_t parent, std::string_view name) {
  std::lock_guard lock(mutex_);
  if (!running_ || queue_.size() >= kQueueLimit) return dropped_.add();
  queue_.push_back({parent, std::string(name)});
  queued_.add(1);
  wake_.notify_one();
}

void Notifier::run(fuse_session* session) {
  base::name_this_thread("fuse_notify");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !queue_.empty() || !running_; });
    if (!running_) break;
    const Name next = std::move(queue_.front());
    queue_.pop_front();
    queued_.add(-1);
    lock.unlock();
    forget_name(session, next.parent, next.name);  // ENOENT: the kernel does not know the name
    sent_.add();
    lock.lock();
  }
  queued_.add(-static_cast<int64_t>(queue_.size()));
  queue_.clear();
}

void Notifier::stop() {
  {
    std::lock_guard lock(mutex_);
    running_ = false;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace shardfs::fuse
