#include "fuse/session.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fuse/connection.h"
#include "fuse/libfuse_log.h"
#include "fuse/mount_options.h"
#include "fuse/operations.h"
#include "fuse/workers.h"

namespace shardfs::fuse {
namespace {

using base::Code;

class RealSession final : public Session, private fs::Kernel {
 public:
  RealSession(const SessionOptions& options, base::Metrics& metrics) : connection_(options, metrics) {
    sem_init(&wake_, 0, 0);
  }
  ~RealSession() override {
    stop();
    if (session_ != nullptr) {
      // Never started: nothing was read from the device, closing it ends the mount.
      if (!stopped_mount_) fuse_session_unmount(session_);
      fuse_session_destroy(session_);
    }
    sem_destroy(&wake_);
  }

  base::Result<void> do_mount();

  fs::Kernel& kernel() override { return *this; }
  base::Result<void> start(fs::FileSystem& file_system) override;
  void probe_passthrough(int descriptor) override { connection_.passthrough.probe(descriptor); }
  std::string passthrough_reason() const override { return connection_.passthrough.reason(); }
  void wait() override;
  void request_exit() noexcept override { sem_post(&wake_); }
  void stop() override;

 private:
  // fs::Kernel
  bool passthrough() const override { return connection_.passthrough.usable(); }
  base::Result<int> open_backing(int descriptor) override { return connection_.passthrough.open(descriptor); }
  void close_backing(int backing_id) override { connection_.passthrough.close(backing_id); }
  void expire_name(fs::NodeId parent, std::string_view name) override { connection_.notifier.expire(parent, name); }

  /// The device number of what is mounted at the mountpoint now, without asking any daemon; 0: unknown.
  dev_t device_at_mountpoint() const;
  void set_read_ahead() const;
  void unmount();

  Connection connection_;
  fuse_session* session_ = nullptr;
  Workers workers_;
  sem_t wake_;
  dev_t device_ = 0;
  bool stopped_mount_ = false;  // unmounted, or it never was
};

base::Result<void> RealSession::do_mount() {
  const SessionOptions& options = connection_.options;
  const fuse_lowlevel_ops operations = make_operations(options.extended_attributes);
  MountArguments arguments(options);
  LibfuseLog log;
  session_ = fuse_session_new(arguments.get(), &operations, sizeof(operations), &connection_);
  if (session_ == nullptr) {
    return base::fail(Code::kInvalid, "libfuse refused the mount's options: " + log.last_line());
  }
  if (fuse_session_mount(session_, options.mountpoint.c_str()) == 0) {
    device_ = device_at_mountpoint();
    return {};
  }
  const int error = errno;
  fuse_session_destroy(std::exchange(session_, nullptr));
  const std::string reason = log.last_line().empty() ? std::strerror(error) : log.last_line();
  const bool permission = error == EPERM || error == EACCES || ::access("/dev/fuse", R_OK | W_OK) != 0;
  return base::fail(permission ? Code::kPermission : Code::kIo, "can't mount on " + options.mountpoint + ": " + reason,
                    error);
}

base::Result<void> RealSession::start(fs::FileSystem& file_system) {
  connection_.file_system = &file_system;
  if (!workers_.start(session_, connection_.options.workers, [this] { sem_post(&wake_); })) {
    return base::fail(Code::kIo, "can't start the threads that answer the kernel");
  }
  // Answered only after INIT was; statfs is never answered from the kernel's memory.
  struct statvfs answered {};
  if (::statvfs(connection_.options.mountpoint.c_str(), &answered) != 0) {
    const int error = errno;
    stop();
    return base::fail_errno(Code::kIo, "the mount on " + connection_.options.mountpoint + " does not answer", error);
  }
  connection_.passthrough.attach(fuse_session_fd(session_));
  connection_.notifier.start(session_);
  set_read_ahead();
  return {};
}

dev_t RealSession::device_at_mountpoint() const {
  struct statx shown {};
  const int flags = AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (::statx(AT_FDCWD, connection_.options.mountpoint.c_str(), flags, STATX_TYPE, &shown) != 0) return 0;
  return makedev(shown.stx_dev_major, shown.stx_dev_minor);
}

void RealSession::set_read_ahead() const {
  const unsigned wanted = connection_.options.read_ahead_kb;
  if (wanted == 0 || device_ == 0) return;
  const std::string path = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", major(device_), minor(device_));
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fprintf(file, "%u\n", wanted) > 0 && std::fflush(file) == 0;
  if (!written) base::log_info("read_ahead_kb stays as it is: {}: {}", path, std::strerror(errno));
  if (file != nullptr) std::fclose(file);
}

void RealSession::wait() {
  while (sem_wait(&wake_) != 0 && errno == EINTR) {
  }
}

void RealSession::stop() {
  if (session_ == nullptr || stopped_mount_ || connection_.file_system == nullptr) return;
  // First, since the kernel's unmount, and the notifier, wait for requests that are parked.
  connection_.file_system->shut_down();
  unmount();
  connection_.passthrough.detach();
  stopped_mount_ = true;
}

void RealSession::unmount() {
  const std::string& mountpoint = connection_.options.mountpoint;
  bool detached = device_ == 0 || device_at_mountpoint() != device_;  // by somebody else
  if (!detached && ::umount2(mountpoint.c_str(), UMOUNT_NOFOLLOW) == 0) {
    detached = true;
    // The workers end by themselves, unless another mount namespace holds the mount.
    workers_.wait_ended(std::chrono::seconds(1));
  } else if (!detached && errno == EBUSY) {
    base::log_warning("{} is in use: detached; what is open there is served by the page cache only", mountpoint);
    detached = ::umount2(mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
  }
  connection_.notifier.stop();
  workers_.stop();
  // Without privilege libfuse's helper unmounts, lazily. Never call it for a name that may be another mount's by now.
  if (!detached || workers_.ended_by_kernel()) fuse_session_unmount(session_);
}

}  // namespace

base::Result<std::unique_ptr<Session>> Session::mount(const SessionOptions& options, base::Metrics& metrics) {
  auto session = std::make_unique<RealSession>(options, metrics);
  if (auto mounted = session->do_mount(); !mounted) return tl::unexpected(mounted.error());
  return session;
}

}  // namespace shardfs::fuse
