#include "app/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace shardfs::app {
namespace {

using base::Code;
using base::fail_errno;
using base::Result;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                         const std::vector<std::string>& environment, bool with_errors) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(Code::kIo, "make a pipe", errno);
  base::UniqueFd read_end(ends[0]);
  const base::UniqueFd write_end(ends[1]);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> end_actions(
      &actions, &::posix_spawn_file_actions_destroy);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  if (with_errors) ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const std::unique_ptr<posix_spawnattr_t, int (*)(posix_spawnattr_t*)> end_attributes(&attributes,
                                                                                       &::posix_spawnattr_destroy);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);

  pid_t process = -1;
  const auto arguments = pointers(command);
  const auto variables = pointers(environment);
  const int error = ::posix_spawnp(&process, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  if (error != 0) return fail_errno(error == ENOENT ? Code::kNotFound : Code::kIo, "run " + command.front(), error);
  return ChildProcess(process, std::move(read_end));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : process_(std::exchange(other.process_, -1)), output_(std::move(other.output_)) {}

ChildProcess::~ChildProcess() { end_group(); }

int ChildProcess::reap() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ChildProcess::end_group() {
  if (process_ < 0) return;
  ::kill(-process_, SIGTERM);
  // Source: time for a Python program with workers to leave; what is left after it has earned SIGKILL.
  for (int tries = 0; tries < 30; ++tries) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
      break;
    ::poll(nullptr, 0, 100);
  }
  ::kill(-process_, SIGKILL);
  // A process in the kernel's uninterruptible sleep (a file server that is away) is left behind.
  for (int tries = 0; tries < 20; ++tries) {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) != 0) break;
    ::poll(nullptr, 0, 50);
  }
  process_ = -1;
}

Result<int> ChildProcess::wait(int stop, const std::function<void(const std::string&)>& on_line,
                               const std::function<void()>& on_tick) {
  std::string received;
  for (;;) {
    pollfd watched[2] = {{output_.get(), POLLIN, 0}, {stop, POLLIN, 0}};
    const int ready = ::poll(watched, 2, 250);
    if (ready < 0 && errno != EINTR) return fail_errno(Code::kIo, "wait for a program", errno);
    if (ready > 0 && watched[1].revents != 0) {
      end_group();
      return base::fail(Code::kCancelled, "interrupted");
    }
    on_tick();
    if (ready <= 0 || watched[0].revents == 0) continue;
    char piece[4096];
    const ssize_t count = ::read(output_.get(), piece, sizeof(piece));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    received.append(piece, static_cast<size_t>(count));
    for (size_t end = 0; (end = received.find('\n')) != std::string::npos; received.erase(0, end + 1)) {
      on_line(received.substr(0, end));
    }
  }
  if (!received.empty()) on_line(received);
  return reap();
}

}  // namespace shardfs::app
