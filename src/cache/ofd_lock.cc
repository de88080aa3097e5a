#include "cache/ofd_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>

namespace shardfs::cache {
namespace {

struct ::flock lock_of(short type, base::ByteRange range) {
  struct ::flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(range.begin);
  lock.l_len = static_cast<off_t>(range.size());
  return lock;
}

short type_of(LockKind kind) { return kind == LockKind::kShared ? F_RDLCK : F_WRLCK; }

bool call(int fd, int command, short type, base::ByteRange range) {
  auto lock = lock_of(type, range);
  int result = 0;
  do {
    result = ::fcntl(fd, command, &lock);
  } while (result < 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

bool try_lock(int fd, LockKind kind, base::ByteRange range) { return call(fd, F_OFD_SETLK, type_of(kind), range); }

bool wait_lock(int fd, LockKind kind, base::ByteRange range) { return call(fd, F_OFD_SETLKW, type_of(kind), range); }

void unlock(int fd, base::ByteRange range) { call(fd, F_OFD_SETLK, F_UNLCK, range); }

base::ByteRange first_locked(int fd, base::ByteRange range) {
  auto lock = lock_of(F_WRLCK, range);
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  const auto begin = static_cast<uint64_t>(lock.l_start);
  const uint64_t end = lock.l_len == 0 ? range.end : begin + static_cast<uint64_t>(lock.l_len);
  return range.intersect({begin, end});
}

bool open_elsewhere(int fd) {
  // Whoever opens the file while the lease is held makes the kernel signal us: by default SIGIO, which would kill.
  ::fcntl(fd, F_SETSIG, SIGURG);  // ignored unless somebody asks for it
  if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) return errno == EAGAIN || errno == EBUSY;
  ::fcntl(fd, F_SETLEASE, F_UNLCK);
  return false;
}

}  // namespace shardfs::cache
