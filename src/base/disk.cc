#include "base/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace shardfs::base {
namespace {

Code code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return Code::kCacheFull;
    case ENOENT: return Code::kNotFound;
    default: return Code::kCacheIo;
  }
}

tl::unexpected<Error> disk_error(std::string what, int error) {
  return fail_errno(code_of(error), std::move(what), error);
}

// What the descriptor is open on; only for messages.
std::string path_of(int fd) {
  std::array<char, 512> target;
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<size_t>(size)) : fmt::format("descriptor {}", fd);
}

// Calls until it is not interrupted by a signal.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

FileStat convert(const struct ::stat& from) {
  return {.size_bytes = static_cast<uint64_t>(from.st_size),
          .allocated_bytes = static_cast<uint64_t>(from.st_blocks) * 512,
          .inode = from.st_ino,
          .device = from.st_dev,
          .links = static_cast<uint32_t>(from.st_nlink),
          .uid = from.st_uid,
          .mode = from.st_mode};
}

}  // namespace

Result<UniqueFd> SystemDisk::open(const std::string& path, int flags, uint32_t mode) {
  const auto open_with = [&](int more) {
    return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | more, static_cast<mode_t>(mode)); });
  };
  // Without a journal entry for the time of a read, for which an open may have to wait. Only for the file's owner.
  int fd = open_with(O_NOATIME);
  if (fd < 0 && errno == EPERM) fd = open_with(0);
  const int error = errno;
  if (fd < 0) return disk_error("open " + path, error);
  return UniqueFd(fd);
}

Result<void> SystemDisk::read_at(int fd, std::span<std::byte> into, uint64_t offset_bytes) {
  size_t done = 0;
  while (done < into.size()) {
    const off_t at = static_cast<off_t>(offset_bytes + done);
    const ssize_t got = uninterrupted([&] { return ::pread(fd, into.data() + done, into.size() - done, at); });
    const auto where = [&] { return fmt::format("read of {} bytes at {} in {}", into.size() - done, at, path_of(fd)); };
    if (got < 0) {
      const int error = errno;
      return disk_error(where(), error);
    }
    if (got == 0) return fail(Code::kCacheIo, where() + ": the file ends there", EIO);
    done += static_cast<size_t>(got);
  }
  return {};
}

Result<void> SystemDisk::write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) {
  size_t done = 0;
  while (done < from.size()) {
    const off_t at = static_cast<off_t>(offset_bytes + done);
    const ssize_t put = uninterrupted([&] { return ::pwrite(fd, from.data() + done, from.size() - done, at); });
    if (put <= 0) {
      const int error = put < 0 ? errno : EIO;
      return disk_error(fmt::format("write of {} bytes at {} in {}", from.size() - done, at, path_of(fd)), error);
    }
    done += static_cast<size_t>(put);
  }
  return {};
}

Result<void> SystemDisk::resize(int fd, uint64_t size_bytes) {
  if (uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size_bytes)); }) == 0) return {};
  const int error = errno;
  return disk_error(fmt::format("resize to {} bytes of {}", size_bytes, path_of(fd)), error);
}

Result<void> SystemDisk::punch(int fd, ByteRange range) {
  if (range.empty()) return {};
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const auto begin = static_cast<off_t>(range.begin);
  const auto size = static_cast<off_t>(range.size());
  if (uninterrupted([&] { return ::fallocate(fd, kMode, begin, size); }) == 0) return {};
  const int error = errno;
  return disk_error(fmt::format("punch of [{}, {}) in {}", range.begin, range.end, path_of(fd)), error);
}

Result<void> SystemDisk::sync(int fd) {
  if (uninterrupted([&] { return ::fdatasync(fd); }) == 0) return {};
  const int error = errno;
  return disk_error("sync of " + path_of(fd), error);
}

Result<void> SystemDisk::sync_directory(const std::string& path) {
  auto fd = open(path, O_RDONLY | O_DIRECTORY);
  if (!fd) return tl::unexpected(fd.error());
  if (uninterrupted([&] { return ::fsync(fd->get()); }) == 0) return {};
  const int error = errno;
  return disk_error("sync of the directory " + path, error);
}

Result<FileStat> SystemDisk::stat(int fd) {
  struct ::stat answer;
  if (::fstat(fd, &answer) == 0) return convert(answer);
  const int error = errno;
  return disk_error("stat of " + path_of(fd), error);
}

Result<FileStat> SystemDisk::stat(const std::string& path) {
  struct ::stat answer;
  if (::stat(path.c_str(), &answer) == 0) return convert(answer);
  const int error = errno;
  return disk_error("stat of " + path, error);
}

Result<void> SystemDisk::unlink(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  const int error = errno;
  return disk_error("unlink of " + path, error);
}

Result<void> SystemDisk::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const int error = errno;
  return disk_error(fmt::format("rename of {} to {}", from, to), error);
}

Result<void> SystemDisk::make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    // A parent on a read-only or foreign file system may be refused although it is there.
    struct ::stat answer;
    if (::mkdir(part.c_str(), 0700) != 0) {
      const int error = errno;
      if (::stat(part.c_str(), &answer) != 0) return disk_error("make directory " + part, error);
      if (!S_ISDIR(answer.st_mode)) return disk_error("make directory " + part, ENOTDIR);
    }
    if (end == std::string::npos) return {};
  }
}

Result<std::vector<std::string>> SystemDisk::list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  const int open_error = errno;
  if (!directory) return disk_error("list " + path, open_error);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error = errno;
  if (error != 0) return disk_error("list " + path, error);
  return names;
}

Result<DiskSpace> SystemDisk::space(const std::string& path) {
  struct ::statfs answer;
  const bool ok = uninterrupted([&] { return ::statfs(path.c_str(), &answer); }) == 0;
  const int error = errno;
  if (!ok) return disk_error("space of " + path, error);
  const auto unit = static_cast<uint64_t>(answer.f_frsize > 0 ? answer.f_frsize : answer.f_bsize);
  return DiskSpace{.total_bytes = answer.f_blocks * unit,
                   .available_bytes = answer.f_bavail * unit,
                   .fs_type = static_cast<long>(answer.f_type)};
}

}  // namespace shardfs::base
