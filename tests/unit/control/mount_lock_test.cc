#include "control/mount_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "../temporary_folder.h"
#include "control/socket_path.h"

namespace shardfs::control {
namespace {

using std::chrono::milliseconds;

TEST_CASE("one holder for a mountpoint, and no file when it has gone") {
  TemporaryFolder folder;
  {
    const auto first = MountLock::take(folder.path(), "/data", milliseconds(0));
    REQUIRE(first);
    const auto second = MountLock::take(folder.path(), "/data", milliseconds(0));
    REQUIRE_FALSE(second);
    CHECK(second.error().code == base::Code::kInvalid);
    CHECK(second.error().message.find("(process " + std::to_string(::getpid()) + ")") != std::string::npos);
    CHECK(MountLock::take(folder.path(), "/other", milliseconds(0)));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(MountLock::take(folder.path(), "/data", milliseconds(0)));
}

TEST_CASE("a lock that was taken away leaves the next holder's file alone") {
  TemporaryFolder folder;
  std::optional<MountLock> first(MountLock::take(folder.path(), "/data", milliseconds(0)).value());
  MountLock::take_away(folder.path(), "/data");
  CHECK_FALSE(first->held());
  const auto second = MountLock::take(folder.path(), "/data", milliseconds(0));
  REQUIRE(second);
  first.reset();
  CHECK(second->held());
  CHECK(std::filesystem::exists(lock_path(folder.path(), "/data")));
}

}  // namespace
}  // namespace shardfs::control
