#include "cache/block_reader.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "cache/cache.h"

namespace shardfs::cache {
namespace {

// What O_DIRECT asks of memory, offset and length. Source: the largest logical block of a disk that is in use.
constexpr size_t kAlignment = 4096;

}  // namespace

BlockReader::BlockReader(base::Disk& disk)
    : disk_(disk), buffer_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlockBytes)), &std::free) {}

base::Result<std::span<const std::byte>> BlockReader::read(int data_fd, base::ByteRange range) {
  if (!buffer_) return base::fail(base::Code::kCacheIo, "no memory to check a block");
  const std::span<std::byte> into(buffer_.get(), range.size());
  if (range.size() % kAlignment == 0) {  // else the end of an object
    const auto direct = disk_.open(fmt::format("/proc/self/fd/{}", data_fd), O_RDONLY | O_DIRECT);
    if (direct && disk_.read_at(direct->get(), into, range.begin)) return into;
  }
  if (auto got = disk_.read_at(data_fd, into, range.begin); !got) return tl::unexpected(got.error());
  return into;
}

}  // namespace shardfs::cache
