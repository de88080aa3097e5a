#include "control/mount_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "control/socket_path.h"

namespace shardfs::control {
namespace {

using base::Code;
using base::fail_errno;
using base::Result;
using SteadyClock = std::chrono::steady_clock;

// Its last holder may have removed the name meanwhile; another process would then lock a new file.
bool still_named(int file, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

std::string holder_of(int file) {
  char text[32];
  const ssize_t count = ::pread(file, text, sizeof(text), 0);
  return count > 0 ? fmt::format(" (process {})", std::string_view(text, static_cast<size_t>(count))) : std::string();
}

}  // namespace

Result<MountLock> MountLock::take(const std::string& folder, const std::string& canonical_mountpoint,
                                  std::chrono::milliseconds patience) {
  const std::string path = lock_path(folder, canonical_mountpoint);
  const auto deadline = SteadyClock::now() + patience;
  for (;;) {
    base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return fail_errno(Code::kIo, "open " + path, errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!still_named(file.get(), path)) continue;
      const std::string text = std::to_string(::getpid());
      if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), text.data(), text.size(), 0) < 0)
        return fail_errno(Code::kIo, "write " + path, errno);
      return MountLock(path, std::move(file));
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno(Code::kIo, "lock " + path, errno);
    if (SteadyClock::now() >= deadline) {
      return base::fail(Code::kInvalid, fmt::format("{} is in use: another daemon starts, runs or ends there{}",
                                                    canonical_mountpoint, holder_of(file.get())));
    }
    ::poll(nullptr, 0, 20);
  }
}

MountLock& MountLock::operator=(MountLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

void MountLock::take_away(const std::string& folder, const std::string& canonical_mountpoint) {
  ::unlink(lock_path(folder, canonical_mountpoint).c_str());
}

bool MountLock::held() const { return file_.valid() && still_named(file_.get(), path_); }

MountLock::~MountLock() {
  if (held()) ::unlink(path_.c_str());
}

}  // namespace shardfs::control
