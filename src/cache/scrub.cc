#include "cache/scrub.h"

#include "base/executor.h"
#include "base/log.h"
#include "cache/budget.h"
#include "cache/checker.h"
#include "cache/ofd_lock.h"

namespace shardfs::cache {
namespace {

// Between two passes, and between two looks whether another mount still does it. Source: disks lose bits in months.
constexpr std::chrono::hours kBetweenPasses{24};
constexpr std::chrono::seconds kBetweenLooks{60};
// Beside the one of the index.
constexpr base::ByteRange kScrubLock = {Budget::kFreeLocks + 1, Budget::kFreeLocks + 2};

}  // namespace

Scrub::Scrub(std::shared_ptr<Core> core) : core_(std::move(core)), thread_([this] { run(); }) {}

Scrub::~Scrub() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool Scrub::sleep(base::SteadyTime::duration duration) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, duration, [&] { return stop_; });
}

void Scrub::run() noexcept {
  base::name_this_thread("cache-scrub");
  for (;;) {
    if (!try_lock(core_->budget->fd(), LockKind::kExclusive, kScrubLock)) {
      if (!sleep(kBetweenLooks)) return;
      continue;
    }
    const bool whole = pass();
    unlock(core_->budget->fd(), kScrubLock);
    if (!whole || !sleep(kBetweenPasses)) return;
  }
}

bool Scrub::pass() {
  static_cast<void>(core_->index->write());
  Checker checker(core_, {});
  Holdings::Check progress;
  for (;;) {
    const auto began = core_->clock.now();
    const auto more = checker.step(progress);
    if (!more) base::warn_once("cache:scrub", "cache: the scrub can't go on: {}", more.error().message);
    if (!more || !*more) return true;
    if (!sleep(pause_after(core_->clock.now() - began))) return false;
  }
}

}  // namespace shardfs::cache
