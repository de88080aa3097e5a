// Notifier: tells the kernel to forget names, from a thread of its own, since such a call can wait for a directory that
// a lookup under way holds, and would then wait for itself if a worker made it.
// Thread rule: expire is thread-safe and never blocks. Owns its thread.
// A name that is dropped since the queue is full is only seen later: when its lifetime in the kernel ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/metrics.h"

struct fuse_session;

namespace shardfs::fuse {

class Notifier {
 public:
  explicit Notifier(base::Metrics& metrics);
  ~Notifier() { stop(); }
  void start(fuse_session* session);
  void expire(uint64_t parent, std::string_view name);
  /// Drops what is queued and joins. Requires: no lookup is parked (else it waits for that).
  void stop();

 private:
  /// Names waiting. Source: a refresh of 65,536 names takes 6 MiB at usual lengths, 16 MiB at the longest.
  static constexpr size_t kQueueLimit = 65536;
  struct Name {
    uint64_t parent = 0;
    std::string name;
  };
  void run(fuse_session* session);

  base::Counter& sent_;
  base::Counter& dropped_;
  base::Gauge& queued_;
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<Name> queue_;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace shardfs::fuse
