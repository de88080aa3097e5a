// StopSignal: says once, to whoever waits on a descriptor, that it has to end.
// Thread rule: thread-safe. It owns an eventfd.
#pragma once

#include <sys/eventfd.h>

#include <atomic>

#include "base/unique_fd.h"

namespace shardfs::s3 {

class StopSignal {
 public:
  StopSignal() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void stop() {
    stopped_ = true;
    if (event_.valid()) eventfd_write(event_.get(), 1);
  }
  bool stopped() const { return stopped_; }
  /// Readable from stop() on; negative if the process had no descriptor left: then ask stopped() now and then.
  int fd() const { return event_.get(); }

 private:
  const base::UniqueFd event_;
  std::atomic<bool> stopped_{false};
};

}  // namespace shardfs::s3
