#include "control/socket_path.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../temporary_folder.h"

namespace shardfs::control {
namespace {

TEST_CASE("the runtime folder is made for this user only") {
  TemporaryFolder folder;
  const std::string wanted = folder.path() + "/run";
  const ScopedVariable variable("SHARDFS_RUNTIME_DIR", wanted.c_str());
  CHECK(runtime_folder().value() == wanted);
  struct stat found {};
  REQUIRE(::stat(wanted.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0700);
  CHECK(runtime_folder().value() == wanted);
  REQUIRE(::chmod(wanted.c_str(), 0777) == 0);
  CHECK(runtime_folder().error().code == base::Code::kPermission);
}

TEST_CASE("a link in the place of the runtime folder is refused") {
  TemporaryFolder folder;
  const std::string link = folder.path() + "/link";
  REQUIRE(::symlink(folder.path().c_str(), link.c_str()) == 0);
  const ScopedVariable variable("SHARDFS_RUNTIME_DIR", link.c_str());
  CHECK(runtime_folder().error().code == base::Code::kPermission);
}

TEST_CASE("a mountpoint has one canonical name") {
  TemporaryFolder folder;
  const std::string root = std::filesystem::canonical(folder.path()).string();
  std::filesystem::create_directories(root + "/a/data");
  std::filesystem::create_directory_symlink(root + "/a", root + "/link");
  std::filesystem::create_directory_symlink("a/data", root + "/direct");
  std::filesystem::create_directory_symlink("direct", root + "/twice");
  const std::string expected = root + "/a/data";
  for (const char* name : {"/a/data", "/a/data/", "/a//data///", "/link/data", "/a/../a/./data", "/direct", "/twice/",
                           "/a/data/.", "/a/data/x/.."}) {
    if (std::string(name).ends_with("x/..")) std::filesystem::create_directory(root + "/a/data/x");
    CHECK_MESSAGE(canonical_mountpoint(root + name).value() == expected, name);
  }
  CHECK(canonical_mountpoint("/").value() == "/");
  CHECK(canonical_mountpoint(root + "/missing").error().code == base::Code::kNotFound);
  CHECK(canonical_mountpoint(root + "/missing/x").error().code == base::Code::kNotFound);
  std::filesystem::create_directory_symlink("loop", root + "/loop");
  CHECK_FALSE(canonical_mountpoint(root + "/loop").has_value());
}

TEST_CASE("each mountpoint has its own socket, and a path that is too long is refused") {
  CHECK(socket_path("/run/x", "/data").value() != socket_path("/run/x", "/data2").value());
  CHECK(socket_path("/run/x", "/data").value() == socket_path("/run/x", "/data").value());
  CHECK(socket_path("/" + std::string(100, 'x'), "/data").error().code == base::Code::kInvalid);
}

MountState state_of(int pid, const std::string& mountpoint) {
  return {pid, process_start(pid), mountpoint, "s3://bucket/prefix", "/run/x.sock"};
}

TEST_CASE("a state is written, read, listed and removed") {
  TemporaryFolder folder;
  REQUIRE(write_state(folder.path(), state_of(::getpid(), "/data/b")).has_value());
  REQUIRE(write_state(folder.path(), state_of(::getpid(), "/data/a")).has_value());
  const auto read = read_state(folder.path(), "/data/a");
  REQUIRE(read.has_value());
  CHECK(read->process_id == ::getpid());
  CHECK(read->source == "s3://bucket/prefix");
  CHECK(alive(*read));
  const auto states = list_states(folder.path());
  REQUIRE(states.size() == 2);
  CHECK(states[0].mountpoint == "/data/a");
  CHECK(states[1].mountpoint == "/data/b");
  remove_state(folder.path(), "/data/a");
  CHECK(list_states(folder.path()).size() == 1);
  CHECK(read_state(folder.path(), "/data/a").error().code == base::Code::kNotFound);
  remove_state(folder.path(), "/data/a");
}

TEST_CASE("the state of a process that has ended, and foreign files, are not listed") {
  TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  // A zombie until it is waited for: it counts as ended already.
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  MountState state = state_of(child, "/data");
  CHECK(state.process_start.empty());
  state.process_start = "12345";
  REQUIRE(write_state(folder.path(), state).has_value());
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  // A process id that now belongs to somebody else.
  MountState reused = state_of(::getpid(), "/data2");
  reused.process_start += "1";
  REQUIRE(write_state(folder.path(), reused).has_value());
  std::ofstream(folder.path() + "/x.json") << "nonsense";
  std::ofstream(folder.path() + "/y.json") << R"({"pid": "7"})";
  CHECK(list_states(folder.path()).empty());
  CHECK_FALSE(alive(reused));
}

}  // namespace
}  // namespace shardfs::control
