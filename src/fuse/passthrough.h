// Passthrough: whether the kernel may read cache files by itself, and the ids it knows them by.
// Not the rule when an open may use it: that is fs's.
// Thread rule: thread-safe. The ids die with the connection.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/error.h"

struct fuse_conn_info;

namespace shardfs::fuse {

class Passthrough {
 public:
  /// wanted: false by configuration.
  explicit Passthrough(bool wanted);
  /// In INIT: asks for the capability.
  void negotiate(fuse_conn_info& connection, bool stacked_backing);
  /// From the end of INIT on; the session's descriptor.
  void attach(int device);
  /// Later calls do nothing.
  void detach() { device_ = -1; }

  bool usable() const { return usable_.load(std::memory_order_acquire) && device_ >= 0; }
  std::string reason() const;

  /// Errors: kUnsupported, kPermission (both: off for good); kIo.
  base::Result<int> open(int descriptor);
  void close(int id);
  void probe(int descriptor);

 private:
  void turn_off(std::string reason);

  std::atomic<bool> usable_{false};
  std::atomic<int> device_{-1};
  std::atomic<bool> granted_{false};  // by INIT, which runs on a worker
  mutable std::mutex mutex_;          // guards reason_
  std::string reason_;
};

}  // namespace shardfs::fuse
