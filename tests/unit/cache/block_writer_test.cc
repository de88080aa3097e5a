#include "cache/block_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "cache/cache.h"
#include "support.h"

namespace shardfs::cache {
namespace {

/// Writes by O_DIRECT, refused if told so; the rest goes on.
class DirectDisk : public test::FaultyDisk {
 public:
  bool refuse_open = false;
  bool refuse_write = false;
  size_t direct_opens = 0;
  size_t direct_writes = 0;
  size_t other_writes = 0;

  base::Result<base::UniqueFd> open(const std::string& path, int flags, uint32_t mode = 0600) override {
    if ((flags & O_DIRECT) == 0) return FaultyDisk::open(path, flags, mode);
    ++direct_opens;
    if (refuse_open) return base::fail_errno(base::Code::kCacheIo, "open", EINVAL);
    return FaultyDisk::open(path, flags & ~O_DIRECT, mode);  // whatever the test's folder lies on
  }
  base::Result<void> write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) override {
    if (fd == data_fd) {
      ++other_writes;
    } else {
      ++direct_writes;
      if (refuse_write) return base::fail_errno(base::Code::kCacheIo, "write", EINVAL);
    }
    return FaultyDisk::write_at(fd, from, offset_bytes);
  }
  int data_fd = -1;
};

struct Place {
  Place() : fd(*disk.open(folder.path() + "/data", O_RDWR | O_CREAT)) { disk.data_fd = fd.get(); }

  std::shared_ptr<base::Buffer> block(unsigned char fill) {
    auto buffer = pool.try_take();
    REQUIRE(buffer);
    for (auto& byte : buffer->span()) byte = std::byte{fill};
    return buffer;
  }
  bool holds(unsigned char fill, uint64_t begin, size_t size) {
    std::vector<std::byte> bytes(size);
    return disk.read_at(fd.get(), bytes, begin) && bytes == std::vector(size, std::byte{fill});
  }

  test::TestFolder folder;
  DirectDisk disk;
  base::UniqueFd fd;
  base::ByteBudget budget{8 << 20};
  base::BufferPool pool{budget, kBlockBytes, 8};
};

}  // namespace

TEST_CASE("whole blocks go past the page cache by one descriptor; the first, and the rest of an object, do not") {
  Place at;
  BlockWriter writer(at.disk, at.fd.get());
  const auto block = at.block(1);
  CHECK(writer.write(block->span(), 0));
  CHECK(writer.write(block->span(), 2 * kBlockBytes));
  CHECK(writer.write(block->span().first(5000), 3 * kBlockBytes));
  CHECK(at.disk.direct_opens == 1);
  CHECK(at.disk.direct_writes == 1);
  CHECK(at.disk.other_writes == 2);
  CHECK(at.holds(1, 0, kBlockBytes));
  CHECK(at.holds(0, kBlockBytes, kBlockBytes));
  CHECK(at.holds(1, 2 * kBlockBytes, kBlockBytes + 5000));
  writer.close();
  CHECK(writer.write(block->span(), kBlockBytes));
  CHECK(at.disk.direct_opens == 2);
  CHECK(at.holds(1, 0, 3 * kBlockBytes + 5000));
}

TEST_CASE("memory that is not aligned is written as before") {
  Place at;
  BlockWriter writer(at.disk, at.fd.get());
  std::vector<std::byte> bytes(kBlockBytes + 1, std::byte{1});
  const size_t shift = reinterpret_cast<uintptr_t>(bytes.data()) % 2 == 0 ? 1 : 0;
  CHECK(writer.write(std::span(bytes).subspan(shift, kBlockBytes), kBlockBytes));
  CHECK(at.disk.direct_opens == 0);
  CHECK(at.holds(1, kBlockBytes, kBlockBytes));
}

TEST_CASE("a file system without such writes is asked once, and every block arrives") {
  Place at;
  SUBCASE("at the open") { at.disk.refuse_open = true; }
  SUBCASE("at the write") { at.disk.refuse_write = true; }
  BlockWriter writer(at.disk, at.fd.get());
  const auto block = at.block(7);
  for (uint64_t i = 0; i < 4; ++i) CHECK(writer.write(block->span(), i * kBlockBytes));
  CHECK(at.disk.direct_opens == 1);
  CHECK(at.disk.other_writes == 4);
  CHECK(at.holds(7, 0, 4 * kBlockBytes));
}

TEST_CASE("a full disk is told, not written around") {
  Place at;
  at.disk.fail_suffix = "data";
  at.disk.fail_writes = ENOSPC;
  BlockWriter writer(at.disk, at.fd.get());
  const auto written = writer.write(at.block(1)->span(), kBlockBytes);
  REQUIRE_FALSE(written);
  CHECK(written.error().code == base::Code::kCacheFull);
  CHECK(at.disk.other_writes == 0);
}

}  // namespace shardfs::cache
