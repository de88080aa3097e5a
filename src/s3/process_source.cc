#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "s3/credential_sources.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;
using std::chrono::steady_clock;

// Source: the limit of the AWS tools.
constexpr std::chrono::seconds kLimit{60};
constexpr size_t kOutputLimit = 64 << 10;
constexpr int kPollMs = 200;  // only how soon a stop is seen without a descriptor for it

/// A shell in a process group of its own, with /dev/null as input and error, and no other descriptor of ours.
Result<pid_t> spawn(const std::string& command, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  const char* const arguments[] = {"/bin/sh", "-c", command.c_str(), nullptr};
  pid_t process = -1;
  const int error = posix_spawn(&process, "/bin/sh", &actions, &attributes, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return base::fail_errno(Code::kTransient, "run /bin/sh", error);
  return process;
}

/// All that it prints, to the end of its output.
Result<std::string> read_output(int fd, const StopSignal& stop) {
  std::string out;
  const auto deadline = steady_clock::now() + kLimit;
  for (;;) {
    if (stop.stopped()) return fail(Code::kCancelled, "cancelled");
    if (steady_clock::now() >= deadline) {
      return fail(Code::kTimeout, fmt::format("no end within {} s", kLimit.count()));
    }
    pollfd events[2] = {{fd, POLLIN, 0}, {stop.fd(), POLLIN, 0}};
    if (poll(events, 2, kPollMs) < 0 && errno != EINTR) return base::fail_errno(Code::kTransient, "poll", errno);
    if (events[0].revents == 0) continue;
    char piece[4096];
    const ssize_t count = read(fd, piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return out;
    out.append(piece, static_cast<size_t>(count));
    if (out.size() > kOutputLimit) return fail(Code::kInvalid, "its output is too long");
  }
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

class ProcessSource final : public CredentialsSource {
 public:
  explicit ProcessSource(std::string command) : command_(std::move(command)) {}

  Loaded load(const StopSignal& stop) override {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return base::fail_errno(Code::kTransient, "make a pipe", errno);
    const base::UniqueFd output(ends[0]);
    base::UniqueFd input(ends[1]);
    const auto process = spawn(command_, input.get());
    if (!process) return tl::unexpected(process.error());
    input.reset();
    const auto text = read_output(output.get(), stop);
    if (!text) kill(-*process, SIGKILL);
    const int status = wait_for(*process);
    if (!text) return fail(text.error().code, "credential_process: " + text.error().message);
    if (status != 0) {
      return fail(Code::kPermission, WIFEXITED(status)
                                         ? fmt::format("credential_process ended with {}", WEXITSTATUS(status))
                                         : fmt::format("credential_process was ended by signal {}", WTERMSIG(status)));
    }
    auto loaded = parse_credentials(*text, "credential_process");
    if (!loaded) return tl::unexpected(std::move(loaded.error()));
    return std::optional(std::move(*loaded));
  }
  std::string name() const override { return "credential_process"; }

 private:
  const std::string command_;
};

}  // namespace

std::unique_ptr<CredentialsSource> process_source(std::string command) {
  return std::make_unique<ProcessSource>(std::move(command));
}

}  // namespace shardfs::s3
