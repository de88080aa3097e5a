#include "base/mapping.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "base/disk.h"

namespace shardfs::base {
namespace {

constexpr uint64_t kPage = 4096;

UniqueFd file_of(SystemDisk& disk, const std::string& path, uint64_t bytes) {
  auto fd = disk.open(path, O_RDWR | O_CREAT);
  REQUIRE(fd);
  const std::vector<std::byte> ones(bytes, std::byte{1});
  REQUIRE(disk.write_at(fd->get(), ones, 0));
  return std::move(*fd);
}

int at(const Mapping& mapping, uint64_t offset) {
  return std::to_integer<int>(static_cast<const volatile std::byte*>(mapping.data())[offset]);
}

TEST_CASE("a file that is cut while it is mapped reads as zeros, and others are not touched") {
  TemporaryFolder folder;
  SystemDisk disk;
  const UniqueFd cut = file_of(disk, folder / "cut", 3 * kPage);
  const UniqueFd whole = file_of(disk, folder / "whole", 3 * kPage);
  auto mapping = Mapping::open(cut.get(), 3 * kPage);
  auto other = Mapping::open(whole.get(), 3 * kPage);
  REQUIRE(mapping);
  REQUIRE(other);
  CHECK(at(*mapping, 2 * kPage) == 1);
  REQUIRE(disk.resize(cut.get(), kPage));
  CHECK(at(*mapping, 0) == 1);
  CHECK_FALSE(mapping->torn());
  CHECK(at(*mapping, 3 * kPage - 1) == 0);
  CHECK(mapping->torn());
  CHECK(at(*mapping, 0) == 1);
  CHECK(at(*mapping, kPage) == 0);
  CHECK(at(*other, 2 * kPage) == 1);
  CHECK_FALSE(other->torn());
  Mapping moved = std::move(*mapping);
  CHECK(moved.torn());
  CHECK(at(moved, 2 * kPage) == 0);
  // Its place in the table is used again, unspoilt.
  moved = Mapping();
  const auto again = Mapping::open(whole.get(), kPage);
  REQUIRE(again);
  CHECK_FALSE(again->torn());
}

TEST_CASE("many threads meet the cut at once, with more mappings than one chunk of the table") {
  TemporaryFolder folder;
  SystemDisk disk;
  const UniqueFd fd = file_of(disk, folder / "file", 16 * kPage);
  std::vector<Mapping> mappings;
  for (int i = 0; i < 1500; ++i) {
    auto mapping = Mapping::open(fd.get(), 16 * kPage);
    REQUIRE(mapping);
    mappings.push_back(std::move(*mapping));
  }
  REQUIRE(disk.resize(fd.get(), 0));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 16; ++i) {
        for (const size_t which : {size_t{0}, static_cast<size_t>(100 + thread), mappings.size() - 1}) {
          if (at(mappings[which], static_cast<uint64_t>(i) * kPage) != 0) ++wrong;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(mappings[0].torn());
  CHECK(mappings[101].torn());
  CHECK_FALSE(mappings[500].torn());
}

TEST_CASE("a SIGBUS that is not the mapping's ends the process as before") {
  TemporaryFolder folder;
  SystemDisk disk;
  const UniqueFd fd = file_of(disk, folder / "file", kPage);
  const auto guarded = Mapping::open(fd.get(), kPage);
  REQUIRE(guarded);
  for (const bool sent : {false, true}) {
    const UniqueFd other = file_of(disk, folder / "other", kPage);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      ::close(STDERR_FILENO);  // a sanitizer's report
      if (sent) ::raise(SIGBUS);
      const void* const mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, other.get(), 0);
      if (::ftruncate(other.get(), 0) == 0) static_cast<void>(*static_cast<const volatile char*>(mapped));
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status != 0);
  }
  CHECK(at(*guarded, 0) == 1);
}

}  // namespace
}  // namespace shardfs::base
