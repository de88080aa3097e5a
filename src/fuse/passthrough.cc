#include "fuse/passthrough.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "fuse/libfuse.h"

namespace shardfs::fuse {
namespace {

using base::Code;

// From the kernel's interface (include/uapi/linux/fuse.h, protocol 7.40), which the headers of older distributions
// lack.
struct BackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
constexpr unsigned kFuseIoctl = 229;
constexpr unsigned long kBackingOpen = _IOW(kFuseIoctl, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(kFuseIoctl, 2, uint32_t);

/// Why the kernel refuses this one and will refuse all others; empty: a passing fault.
std::string lasting_reason(int error) {
  switch (error) {
    case EPERM: return "the daemon lacks CAP_SYS_ADMIN in the first user namespace";
    case ELOOP: return "the cache folder lies on a stacked file system (overlayfs)";
    case ENOTTY:
    case ENOSYS: return "the kernel is too old (before 6.9)";
    case EOPNOTSUPP: return "the cache folder's file system can't be read by the kernel itself";
    default: return {};
  }
}

}  // namespace

Passthrough::Passthrough(bool wanted)
    : reason_(wanted ? "the kernel has not been asked yet" : "switched off by configuration") {
  granted_ = wanted;
}

void Passthrough::negotiate(fuse_conn_info& connection, bool stacked_backing) {
  if (!granted_) return;
#if SHARDFS_LIBFUSE_PASSTHROUGH
  granted_ = fuse_set_feature_flag(&connection, FUSE_CAP_PASSTHROUGH);
  connection.max_backing_stack_depth = stacked_backing ? 1 : 0;
  if (!granted_) turn_off("the kernel does not offer it (Linux 6.9 or newer does)");
#else
  (void)connection;
  (void)stacked_backing;
  granted_ = false;
  turn_off("built with a libfuse before 3.17");
#endif
}

void Passthrough::attach(int device) {
  device_ = device;
  if (!granted_) return;
  std::lock_guard lock(mutex_);
  reason_.clear();
  usable_ = true;
}

std::string Passthrough::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

void Passthrough::turn_off(std::string reason) {
  usable_ = false;
  std::lock_guard lock(mutex_);
  reason_ = std::move(reason);
}

base::Result<int> Passthrough::open(int descriptor) {
  const int device = device_;
  if (device < 0) return base::fail(Code::kUnsupported, "the mount has ended");
  BackingMap map{descriptor, 0, 0};
  const int id = ::ioctl(device, kBackingOpen, &map);
  if (id > 0) return id;
  const int error = id == 0 ? EIO : errno;
  const std::string lasting = lasting_reason(error);
  if (lasting.empty()) return base::fail_errno(Code::kIo, "the kernel refused a backing file", error);
  turn_off(lasting);
  return base::fail_errno(error == EPERM ? Code::kPermission : Code::kUnsupported, "passthrough is off: " + lasting,
                          error);
}

void Passthrough::close(int id) {
  const int device = device_;
  uint32_t number = static_cast<uint32_t>(id);
  if (device < 0 || ::ioctl(device, kBackingClose, &number) == 0) return;
  base::warn_once("fuse: close backing", "the kernel refused to close a backing id: {}", std::strerror(errno));
}

void Passthrough::probe(int descriptor) {
  if (!usable()) return;
  if (const auto id = open(descriptor)) {
    close(*id);
  } else {
    base::log_info("{}", id.error().message);
  }
}

}  // namespace shardfs::fuse
