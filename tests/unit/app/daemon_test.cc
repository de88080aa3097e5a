#include "app/daemon.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_folder.h"
#include "app/command.h"
#include "app/message.h"
#include "base/unique_fd.h"

namespace shardfs::app {
namespace {

// The daemon's process ends with _exit, so that the test program's own end does not run twice.
int start(const std::string& log_file, const std::function<int(StartReport&)>& body) {
  return run_detached(log_file, [&](StartReport& report) {
    const int code = body(report);
    report.failed(code);
    ::_exit(code);
    return code;
  });
}

std::string read_all(int fd) {
  std::string text;
  char byte = 0;
  while (::read(fd, &byte, 1) == 1) text += byte;
  return text;
}

// Standard error of this process, for as long as it lives, goes into a pipe.
class CapturedErrors {
 public:
  CapturedErrors() : before_(::dup(STDERR_FILENO)) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read_end_.reset(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  ~CapturedErrors() { restore(); }
  void restore() {
    if (before_.valid()) ::dup2(before_.get(), STDERR_FILENO);
    before_.reset();
  }
  std::string text() {
    restore();
    return read_all(read_end_.get());  // to the end: fails to return if a daemon keeps the pipe
  }

 private:
  base::UniqueFd before_;
  base::UniqueFd read_end_;
};

TEST_CASE("the parent returns when the child is ready, and the child holds nothing of it") {
  TemporaryFolder folder;
  int kept[2];
  REQUIRE(::pipe(kept) == 0);  // inherited by an ordinary child
  int life[2];
  REQUIRE(::pipe2(life, O_CLOEXEC) == 0);
  const std::string facts = folder.path() + "/facts";
  CapturedErrors errors;
  const int code = start("", [&](StartReport& report) {
    const bool heard = report.ready();
    const int flags[] = {::fcntl(kept[0], F_GETFD), ::fcntl(kept[1], F_GETFD)};  // before a new file takes the number
    std::ofstream file(facts + ".new");
    file << heard << ' ' << (::getsid(0) == ::getpid()) << ' ' << std::filesystem::current_path().string() << ' '
         << std::filesystem::read_symlink("/proc/self/fd/0").string() << ' '
         << std::filesystem::read_symlink("/proc/self/fd/1").string() << ' '
         << std::filesystem::read_symlink("/proc/self/fd/2").string() << ' ' << flags[0] << ' ' << flags[1];
    file.close();
    ::rename((facts + ".new").c_str(), facts.c_str());
    for (;;) ::pause();
    return 0;
  });
  CHECK(code == kExitOk);
  ::close(kept[1]);
  ::close(life[1]);
  // Both pipes end although the daemon lives: it has no copy of them.
  CHECK(read_all(kept[0]).empty());
  CHECK(read_all(life[0]).empty());
  CHECK(errors.text().empty());
  ::close(kept[0]);
  ::close(life[0]);
  while (!std::filesystem::exists(facts)) ::usleep(1000);
  std::ifstream file(facts);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text == "1 1 / /dev/null /dev/null /dev/null -1 -1");
  // It is this process's child: the only one.
  siginfo_t child{};
  CHECK(::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0);
  // Its id is not told by run_detached: look it up by its parent.
  const std::string children = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
  std::ifstream list(children);
  int pid = 0;
  while (list >> pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

TEST_CASE("the child's exit code and message reach the caller") {
  CapturedErrors errors;
  const int code = start("", [](StartReport&) {
    print_error("no such\nbucket");
    return 7;
  });
  CHECK(code == 7);
  CHECK(errors.text() == "shardfs: no such bucket\n");
}

TEST_CASE("a child that dies without a word is reported") {
  CapturedErrors errors;
  const int code = start("", [](StartReport&) {
    ::signal(SIGTERM, SIG_DFL);
    ::kill(::getpid(), SIGTERM);
    return 0;
  });
  CHECK(code == kExitFailed);
  CHECK(errors.text() == "shardfs: the daemon was ended by signal 15 before the mount was ready\n");
}

TEST_CASE("in the foreground a report does nothing") {
  StartReport report(-1, "");
  CHECK(report.ready());
  report.failed(1);
}

}  // namespace
}  // namespace shardfs::app
