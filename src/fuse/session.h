// Session: one mount and its connection to the kernel: mounting, the threads that answer requests, the end.
// It translates and decides nothing: what a request means is fs's. Mountpoints are checked by the caller before.
// Thread rule: confined to one thread, but request_exit (any thread or signal handler) and kernel() (thread-safe).
// Order: mount, make the FileSystem with kernel(), start, [probe_passthrough], wait, stop, destroy the FileSystem, then
// the session. No thread is made before start: fork before it.
// Owns the mount, the device descriptor, the workers, the notifier's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/metrics.h"
#include "fs/file_system.h"

namespace shardfs::fuse {

enum class PassthroughMode { kAuto, kOff };

struct SessionOptions {
  std::string mountpoint;  // canonical
  std::string source;      // the first column of /proc/mounts: "shardfs#s3://bucket/prefix"
  bool allow_other = false;
  unsigned workers = 4;  // threads that read requests, at most; two are enough, since none ever waits
  PassthroughMode passthrough = PassthroughMode::kAuto;
  bool stacked_backing = false;     // the cache folder lies on overlayfs; this mount can't be a lower layer then
  unsigned read_ahead_kb = 0;       // of the mount; 0: the kernel's own, 128
  bool extended_attributes = true;  // false: the kernel asks once and never again
  // READs in the kernel's background at once. Source: kernel.md 8: parked ones take its 12 slots, then all files wait.
  unsigned max_background = 1024;
  unsigned congestion_threshold = 768;
};

class Session {
 public:
  /// Mounts; nobody answers yet. Errors: kInvalid, kPermission, kIo, with libfuse's reason.
  static base::Result<std::unique_ptr<Session>> mount(const SessionOptions& options, base::Metrics& metrics);
  virtual ~Session() = default;

  /// For FileSystem::make.
  virtual fs::Kernel& kernel() = 0;
  /// Returns when the mount answers. file_system lives until after stop(). Errors: kIo.
  virtual base::Result<void> start(fs::FileSystem& file_system) = 0;
  /// Registers this descriptor (of a file in the cache folder) and takes it back; passthrough is off for good where the
  /// kernel refuses. Requires: started.
  virtual void probe_passthrough(int descriptor) = 0;
  /// Empty while passthrough is on; else why it is not.
  virtual std::string passthrough_reason() const = 0;

  /// Blocks until the mount is gone (umount) or request_exit was called.
  virtual void wait() = 0;
  /// Async-signal-safe.
  virtual void request_exit() noexcept = 0;
  /// Shuts the file system down, unmounts (lazily if it is in use; open passthrough files stay readable), ends all
  /// threads. May be repeated.
  virtual void stop() = 0;
};

}  // namespace shardfs::fuse
