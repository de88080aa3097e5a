#include "app/mountpoint.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../control/temporary_folder.h"
#include "base/unique_fd.h"

namespace shardfs::app {
namespace {

constexpr const char* kMountinfo =
    "22 1 0:5 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "40 22 0:50 / /data rw,nosuid shared:7 master:2 - fuse.other other rw,user_id=0\n"
    "41 22 0:51 / /data ro,nosuid - fuse.shardfs s3://bucket/a\\040b ro,user_id=0\n"
    "42 22 0:52 / /with\\040blank rw - tmpfs none rw\n";

TEST_CASE("the topmost mount on a path is found") {
  const auto entry = find_mount(kMountinfo, "/data");
  REQUIRE(entry.has_value());
  CHECK(entry->of_shardfs());
  CHECK(entry->of_fuse());
  CHECK(entry->source == "s3://bucket/a b");
  CHECK(entry->device == "0:51");
  const auto blank = find_mount(kMountinfo, "/with blank");
  REQUIRE(blank.has_value());
  CHECK_FALSE(blank->of_fuse());
  CHECK_FALSE(find_mount(kMountinfo, "/dat").has_value());
  CHECK_FALSE(find_mount("nonsense\n", "/data").has_value());
  CHECK(find_mount("/proc").value().type == "proc");
}

TEST_CASE("a mountpoint must be an existing folder; one with files in it is noted") {
  TemporaryFolder folder;
  std::vector<std::string> notes;
  CHECK(prepare_mountpoint(folder.path(), notes).has_value());
  CHECK(notes.empty());
  std::ofstream(folder.path() + "/file") << "x";
  CHECK(prepare_mountpoint(folder.path(), notes).has_value());
  CHECK(notes.size() == 1);
  CHECK(prepare_mountpoint(folder.path() + "/file", notes).error().code == base::Code::kNotDirectory);
  const auto missing = prepare_mountpoint(folder.path() + "/missing", notes);
  CHECK(missing.error().code == base::Code::kNotFound);
  CHECK(missing.error().message.find(folder.path() + "/missing does not exist") != std::string::npos);
}

TEST_CASE("a process with a file or its folder there is a holder") {
  TemporaryFolder folder;
  const std::string root = std::filesystem::canonical(folder.path()).string();
  std::ofstream(root + "/file") << "x";
  std::filesystem::create_directory(root + "2");
  const auto held_by_me = [](const std::vector<Holder>& holders) {
    return std::count_if(holders.begin(), holders.end(), [](const Holder& h) { return h.process_id == ::getpid(); });
  };
  CHECK(held_by_me(holders_of(root)) == 0);
  std::ifstream open_file(root + "/file");
  const auto holders = holders_of(root);
  REQUIRE(held_by_me(holders) == 1);
  CHECK(std::any_of(holders.begin(), holders.end(),
                    [&](const Holder& h) { return h.how == "open file " + root + "/file"; }));
  CHECK(held_by_me(holders_of(root + "2")) == 0);
  std::filesystem::remove(root + "2");
}

TEST_CASE("unmounting what is not mounted says so") {
  if (::geteuid() != 0) return;  // others ask fusermount3
  TemporaryFolder folder;
  CHECK(unmount(folder.path(), false).value() == Unmounted::kNotMounted);
  CHECK(unmount(folder.path() + "/missing", false).value() == Unmounted::kNotMounted);
}

}  // namespace
}  // namespace shardfs::app
