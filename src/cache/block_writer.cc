#include "cache/block_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "cache/cache.h"

namespace shardfs::cache {
namespace {

// What O_DIRECT asks of the memory. Source: the largest logical block of a disk that is in use.
constexpr uintptr_t kAlignment = 4096;

bool fits_direct(std::span<const std::byte> data) {
  return data.size() == kBlockBytes && reinterpret_cast<uintptr_t>(data.data()) % kAlignment == 0;
}

}  // namespace

base::Result<void> BlockWriter::write(std::span<const std::byte> data, uint64_t offset_bytes) {
  // The first block stays in the page cache: whoever opens the file begins there.
  if (offset_bytes > 0 && fits_direct(data)) {
    if (const auto fd = direct()) {
      auto written = disk_.write_at(fd->get(), data, offset_bytes);
      if (written || written.error().sys_errno != EINVAL) return written;
      refuse();
    }
  }
  return disk_.write_at(data_fd_, data, offset_bytes);
}

void BlockWriter::close() {
  const std::lock_guard guard(mutex_);
  direct_ = nullptr;
}

std::shared_ptr<base::UniqueFd> BlockWriter::direct() {
  const std::lock_guard guard(mutex_);
  if (!direct_ && !refused_) {
    auto fd = disk_.open(fmt::format("/proc/self/fd/{}", data_fd_), O_WRONLY | O_DIRECT);
    refused_ = !fd;
    if (fd) direct_ = std::make_shared<base::UniqueFd>(std::move(*fd));
  }
  return direct_;
}

void BlockWriter::refuse() {
  const std::lock_guard guard(mutex_);
  refused_ = true;
  direct_ = nullptr;
}

}  // namespace shardfs::cache
