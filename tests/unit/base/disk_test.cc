#include "base/disk.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "../temporary_folder.h"

namespace shardfs::base {
namespace {

constexpr int kNew = O_RDWR | O_CREAT | O_EXCL;

std::vector<std::byte> pattern(size_t bytes, unsigned seed = 1) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>((i * 31 + i / 256 + seed) & 0xff);
  return made;
}

TEST_CASE("bytes come back from where they were put") {
  TemporaryFolder folder;
  SystemDisk disk;
  auto fd = disk.open(folder / "file", kNew);
  REQUIRE(fd);
  CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
  const auto bytes = pattern(100000);
  REQUIRE(disk.write_at(fd->get(), bytes, 5000));
  std::vector<std::byte> read(bytes.size());
  REQUIRE(disk.read_at(fd->get(), read, 5000));
  CHECK(read == bytes);
  std::vector<std::byte> hole(5000, std::byte{1});
  REQUIRE(disk.read_at(fd->get(), hole, 0));
  CHECK(std::all_of(hole.begin(), hole.end(), [](std::byte b) { return b == std::byte{0}; }));
  CHECK(disk.read_at(fd->get(), {}, 1 << 30));
  CHECK(disk.write_at(fd->get(), {}, 1 << 30));
  CHECK(disk.stat(fd->get())->size_bytes == 105000);
  CHECK(disk.sync(fd->get()));
  CHECK(disk.sync_directory(folder.path()));
}

TEST_CASE("reads leave no time behind, in files of one's own; those of others open as well") {
  TemporaryFolder folder;
  SystemDisk disk;
  const auto own = disk.open(folder / "file", kNew);
  REQUIRE(own);
  CHECK((::fcntl(own->get(), F_GETFL) & O_NOATIME) != 0);
  if (::geteuid() != 0) return;
  REQUIRE(::seteuid(65534) == 0);
  const auto other = disk.open("/etc/passwd", O_RDONLY);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(other);
  CHECK((::fcntl(other->get(), F_GETFL) & O_NOATIME) == 0);
}

TEST_CASE("a read beyond the end is an error, not fewer bytes") {
  TemporaryFolder folder;
  SystemDisk disk;
  auto fd = disk.open(folder / "file", kNew);
  REQUIRE(fd);
  REQUIRE(disk.write_at(fd->get(), pattern(100), 0));
  std::vector<std::byte> read(101);
  const auto result = disk.read_at(fd->get(), read, 0);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::kCacheIo);
  CHECK(result.error().message.find(folder / "file") != std::string::npos);
}

TEST_CASE("resize makes and drops bytes") {
  TemporaryFolder folder;
  SystemDisk disk;
  auto fd = disk.open(folder / "file", kNew);
  REQUIRE(fd);
  REQUIRE(disk.resize(fd->get(), 1 << 30));
  const auto grown = disk.stat(folder / "file");
  REQUIRE(grown);
  CHECK(grown->size_bytes == 1 << 30);
  CHECK(grown->allocated_bytes < 1 << 20);
  REQUIRE(disk.resize(fd->get(), 7));
  CHECK(disk.stat(fd->get())->size_bytes == 7);
}

TEST_CASE("punch frees a range and leaves its neighbours and the length alone") {
  TemporaryFolder folder;
  SystemDisk disk;
  auto fd = disk.open(folder / "file", kNew);
  REQUIRE(fd);
  const auto bytes = pattern(1 << 20);
  REQUIRE(disk.write_at(fd->get(), bytes, 0));
  REQUIRE(disk.sync(fd->get()));
  const auto before = disk.stat(fd->get())->allocated_bytes;
  const ByteRange range{256 << 10, 768 << 10};
  REQUIRE(disk.punch(fd->get(), range));
  const auto after = disk.stat(fd->get());
  REQUIRE(after);
  CHECK(after->size_bytes == bytes.size());
  CHECK(after->allocated_bytes + range.size() <= before);
  std::vector<std::byte> read(bytes.size());
  REQUIRE(disk.read_at(fd->get(), read, 0));
  for (size_t i = 0; i < read.size(); ++i) {
    const std::byte wanted = range.contains(i) ? std::byte{0} : bytes[i];
    if (read[i] != wanted) FAIL("byte ", i);
  }
  CHECK(disk.punch(fd->get(), {10, 10}));
  CHECK(disk.stat(fd->get())->allocated_bytes == after->allocated_bytes);
}

TEST_CASE("what is not there is not found, with its errno and name") {
  TemporaryFolder folder;
  SystemDisk disk;
  const std::string none = folder / "none";
  const auto check = [&](const auto& result) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kNotFound);
    CHECK(result.error().sys_errno == ENOENT);
    CHECK(result.error().message.find(none) != std::string::npos);
  };
  check(disk.open(none, O_RDONLY));
  check(disk.stat(none));
  check(disk.unlink(none));
  check(disk.rename(none, folder / "other"));
  check(disk.list(none));
  check(disk.space(none));
  check(disk.sync_directory(none));
}

TEST_CASE("other failures are the cache disk's") {
  TemporaryFolder folder;
  SystemDisk disk;
  const auto check = [](const auto& result, int error) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kCacheIo);
    CHECK(result.error().sys_errno == error);
  };
  std::vector<std::byte> bytes(1);
  check(disk.read_at(-1, bytes, 0), EBADF);
  check(disk.write_at(-1, bytes, 0), EBADF);
  check(disk.resize(-1, 0), EBADF);
  check(disk.punch(-1, {0, 1}), EBADF);
  check(disk.sync(-1), EBADF);
  check(disk.stat(-1), EBADF);
  REQUIRE(disk.open(folder / "file", kNew));
  check(disk.open(folder / "file", kNew), EEXIST);
  check(disk.list(folder / "file"), ENOTDIR);
  check(disk.make_directories(folder / "file"), ENOTDIR);
  check(disk.make_directories(folder / "file/below"), ENOTDIR);
  check(disk.unlink(folder.path()), EISDIR);
}

TEST_CASE("names: make, list, rename, unlink") {
  TemporaryFolder folder;
  SystemDisk disk;
  REQUIRE(disk.make_directories(folder / "a/b//c"));
  REQUIRE(disk.make_directories(folder / "a/b/c/"));
  CHECK((disk.stat(folder / "a/b")->mode & 07777) == 0700);
  CHECK(S_ISDIR(disk.stat(folder / "a/b/c")->mode));
  CHECK(disk.list(folder / "a/b/c")->empty());
  REQUIRE(disk.open(folder / "a/one", kNew));
  CHECK((disk.stat(folder / "a/one")->mode & 07777) == 0600);
  auto two = disk.open(folder / "a/two", kNew, 0640);
  REQUIRE(two);
  REQUIRE(disk.write_at(two->get(), pattern(3), 0));
  const auto inode = disk.stat(two->get())->inode;
  REQUIRE(disk.rename(folder / "a/two", folder / "a/one"));
  CHECK(disk.stat(folder / "a/one")->inode == inode);
  auto names = disk.list(folder / "a");
  REQUIRE(names);
  std::sort(names->begin(), names->end());
  CHECK(*names == std::vector<std::string>{"b", "one"});
  REQUIRE(disk.unlink(folder / "a/one"));
  CHECK(disk.stat(two->get())->links == 0);
  CHECK(*disk.list(folder / "a") == std::vector<std::string>{"b"});
}

TEST_CASE("space says what statfs says") {
  TemporaryFolder folder;
  SystemDisk disk;
  const auto space = disk.space(folder.path());
  REQUIRE(space);
  CHECK(space->total_bytes > 0);
  CHECK(space->available_bytes <= space->total_bytes);
  struct ::statfs answer;
  REQUIRE(::statfs(folder.path().c_str(), &answer) == 0);
  CHECK(space->fs_type == static_cast<long>(answer.f_type));
}

TEST_CASE("no space is its own code") {
  SystemDisk disk;
  auto fd = disk.open("/dev/full", O_WRONLY);
  REQUIRE(fd);
  const auto result = disk.write_at(fd->get(), pattern(10), 0);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::kCacheFull);
  CHECK(result.error().sys_errno == ENOSPC);
}

TEST_CASE("a file system that fills up says so, and takes bytes again when some are freed") {
  TemporaryFolder folder;
  SystemDisk disk;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=256k") != 0) {
    MESSAGE("not tried: mounting needs root");
    return;
  }
  {
    auto fd = disk.open(folder / "file", kNew);
    CHECK(fd);
    const auto bytes = pattern(512 << 10);
    const auto result = fd ? disk.write_at(fd->get(), bytes, 0) : Result<void>{};
    CHECK_FALSE(result);
    if (!result) CHECK(result.error().code == Code::kCacheFull);
    CHECK(disk.space(folder.path())->available_bytes == 0);
    CHECK(disk.punch(fd->get(), {0, 128 << 10}));
    CHECK(disk.space(folder.path())->available_bytes == 128 << 10);
    CHECK(disk.write_at(fd->get(), std::span(bytes).first(64 << 10), 0));
  }
  CHECK(::umount(folder.path().c_str()) == 0);
}

}  // namespace
}  // namespace shardfs::base
