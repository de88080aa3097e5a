#include "app/mountpoint.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../temporary_folder.h"
#include "base/unique_fd.h"

namespace shardfs::app {
namespace {

// A shell that runs a script, and has said on its output that it is where it should be.
class Holding {
 public:
  static Holding start(const char* script, const std::string& argument) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", script, "sh", argument.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char said = 0;
    const bool there = ::read(ends[0], &said, 1) == 1;
    ::close(ends[0]);
    REQUIRE(there);
    return Holding(child);
  }
  ~Holding() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Holding(Holding&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  Holding& operator=(Holding&&) = delete;
  int process_id() const { return process_; }

 private:
  explicit Holding(pid_t process) : process_(process) {}
  pid_t process_;
};

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

TEST_CASE("the mount that a path lies in is found, not one on the path itself") {
  const auto above = find_mount_above(kMountinfo, "/data/set/a");
  REQUIRE(above.has_value());
  CHECK(above->mountpoint == "/data");
  CHECK(above->of_shardfs());
  CHECK(find_mount_above(kMountinfo, "/data")->mountpoint == "/");
  CHECK(find_mount_above(kMountinfo, "/database/a")->mountpoint == "/");
  CHECK_FALSE(find_mount_above(kMountinfo, "/").has_value());
}

TEST_CASE("a cache folder on or below the mountpoint is refused, also by another name") {
  TemporaryFolder folder;
  const std::string root = std::filesystem::canonical(folder.path()).string();
  const std::string mountpoint = root + "/mount";
  std::filesystem::create_directory(mountpoint);
  std::filesystem::create_symlink(mountpoint, root + "/link");
  for (const std::string below :
       {"/mount", "/mount/", "/mount/cache", "/mount/not/there/yet", "/link/cache", "/x/../mount/c"}) {
    CAPTURE(below);
    const auto refused = refuse_cache_below(mountpoint, root + below);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find(root + below) != std::string::npos);
  }
  for (const std::string beside : {"", "/mounted", "/cache", "/not/there/yet"}) {
    CHECK(refuse_cache_below(mountpoint, root + beside).has_value());
  }
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

TEST_CASE("another process with a file or its folder there is a holder") {
  TemporaryFolder folder;
  const std::string root = std::filesystem::canonical(folder.path()).string();
  std::ofstream(root + "/file") << "x";
  std::ifstream own(root + "/file");  // this process itself does not count
  CHECK(holders_of(root).empty());
  // Each says that it is there before it is looked for.
  auto folder_holder = Holding::start("cd \"$1\" && echo there && exec sleep 1000", root);
  auto file_holder = Holding::start("exec 9<\"$1/file\" && echo there && exec sleep 1000", root);
  const auto holders = holders_of(root);
  REQUIRE(holders.size() == 2);
  for (const Holder& holder : holders) {
    const bool by_folder = holder.process_id == folder_holder.process_id();
    CHECK((by_folder || holder.process_id == file_holder.process_id()));
    CHECK(holder.how == (by_folder ? "working directory" : "open file " + root + "/file"));
  }
  CHECK(holders_of(root + "/fil").empty());
}

TEST_CASE("unmounting what is not mounted says so") {
  if (::geteuid() != 0) return;  // others ask fusermount3
  TemporaryFolder folder;
  CHECK(unmount(folder.path(), false).value() == Unmounted::kNotMounted);
  CHECK(unmount(folder.path() + "/missing", false).value() == Unmounted::kNotMounted);
}

}  // namespace
}  // namespace shardfs::app
