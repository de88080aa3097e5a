#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <set>
#include <string>

#include "base/byte_range.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::base {
namespace {

TEST_CASE("a byte range is half open") {
  const ByteRange range{10, 20};
  CHECK(range.size() == 10);
  CHECK(range.contains(10));
  CHECK(range.contains(19));
  CHECK_FALSE(range.contains(20));
  CHECK(range.contains(ByteRange{10, 20}));
  CHECK_FALSE(range.contains(ByteRange{10, 21}));
  CHECK(range.intersect({15, 30}) == ByteRange{15, 20});
  CHECK(range.intersect({0, 100}) == range);
  CHECK(range.intersect({20, 30}).empty());
  CHECK(range.intersect({30, 40}).size() == 0);
  CHECK(ByteRange{5, 3}.size() == 0);
}

TEST_CASE("alignment rounds to multiples of the unit") {
  CHECK(align_down(4097, 4096) == 4096);
  CHECK(align_down(4096, 4096) == 4096);
  CHECK(align_up(4097, 4096) == 8192);
  CHECK(align_up(4096, 4096) == 4096);
  CHECK(align_up(0, 4096) == 0);
}

TEST_CASE("a manual clock moves only when it is told to") {
  ManualClock clock;
  const auto steady = clock.now();
  const auto wall = clock.wall_now();
  CHECK(clock.now() == steady);
  clock.advance(std::chrono::seconds(5));
  CHECK(clock.now() - steady == std::chrono::seconds(5));
  CHECK(clock.wall_now() - wall == std::chrono::seconds(5));
}

TEST_CASE("every code has a name of its own") {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::kIo); ++code) {
    names.emplace(name_of(static_cast<Code>(code)));
  }
  CHECK(names.size() == static_cast<size_t>(Code::kIo) + 1);
  CHECK_FALSE(names.contains("unknown"));
}

TEST_CASE("fail_errno keeps the errno and says it in words") {
  const Result<int> result = fail_errno(Code::kIo, "open /x", EACCES);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::kIo);
  CHECK(result.error().sys_errno == EACCES);
  CHECK(result.error().message == "open /x: Permission denied");
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST_CASE("a descriptor has one owner and is closed once") {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  REQUIRE(first.valid());
  const int number = first.get();
  UniqueFd second(std::move(first));
  CHECK_FALSE(first.valid());
  CHECK(second.get() == number);
  first = std::move(second);
  CHECK(first.get() == number);
  CHECK(is_open(number));
  first.reset();
  CHECK_FALSE(is_open(number));
  {
    UniqueFd given(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int released = given.release();
    CHECK_FALSE(given.valid());
    CHECK(is_open(released));
    ::close(released);
  }
}

}  // namespace
}  // namespace shardfs::base
