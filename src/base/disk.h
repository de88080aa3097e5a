// Disk: the seam between shardfs and a local file system, so that tests can fail it, fill it, or cut its power.
// Not for the mount's own files: only the cache goes through it.
// Thread rule: thread-safe. All calls may block on local I/O. Descriptors are plain; callers own them by UniqueFd.
// Errors of all calls: kCacheIo, or kCacheFull for ENOSPC and EDQUOT, kNotFound for ENOENT; sys_errno is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_range.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::base {

struct FileStat {
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  // st_blocks * 512
  uint64_t inode = 0;
  uint64_t device = 0;
  uint32_t links = 0;
  uint32_t uid = 0;
  uint32_t mode = 0;
};

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // to this process
  long fs_type = 0;              // statfs f_type
};

class Disk {
 public:
  virtual ~Disk() = default;
  /// flags and mode as open(2); O_CLOEXEC is added, and O_NOATIME where it is allowed.
  virtual Result<UniqueFd> open(const std::string& path, int flags, uint32_t mode = 0600) = 0;
  /// Whole span or an error; a short file is kCacheIo.
  virtual Result<void> read_at(int fd, std::span<std::byte> into, uint64_t offset_bytes) = 0;
  virtual Result<void> write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) = 0;
  virtual Result<void> resize(int fd, uint64_t size_bytes) = 0;
  virtual Result<void> punch(int fd, ByteRange range) = 0;
  /// fdatasync.
  virtual Result<void> sync(int fd) = 0;
  virtual Result<void> sync_directory(const std::string& path) = 0;
  virtual Result<FileStat> stat(int fd) = 0;
  virtual Result<FileStat> stat(const std::string& path) = 0;
  virtual Result<void> unlink(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// Makes the directory and its parents, mode 0700; success if it is there.
  virtual Result<void> make_directories(const std::string& path) = 0;
  /// Names in a directory, without "." and "..", in no order.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Result<DiskSpace> space(const std::string& path) = 0;
};

/// The real one.
class SystemDisk final : public Disk {
 public:
  Result<UniqueFd> open(const std::string& path, int flags, uint32_t mode = 0600) override;
  Result<void> read_at(int fd, std::span<std::byte> into, uint64_t offset_bytes) override;
  Result<void> write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) override;
  Result<void> resize(int fd, uint64_t size_bytes) override;
  Result<void> punch(int fd, ByteRange range) override;
  Result<void> sync(int fd) override;
  Result<void> sync_directory(const std::string& path) override;
  Result<FileStat> stat(int fd) override;
  Result<FileStat> stat(const std::string& path) override;
  Result<void> unlink(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> make_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<DiskSpace> space(const std::string& path) override;
};

}  // namespace shardfs::base
