#include "app/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include "app/command.h"
#include "app/message.h"

namespace shardfs::app {
namespace {

constexpr unsigned char kReady = 0;
constexpr int kStatusDescriptor = 3;

bool write_byte(int fd, unsigned char byte) {
  for (;;) {
    const ssize_t count = ::write(fd, &byte, 1);
    if (count == 1) return true;
    if (count < 0 && errno == EINTR) continue;
    return false;
  }
}

void redirect(const char* path, int flags, std::initializer_list<int> descriptors) {
  const base::UniqueFd file(::open(path, flags | O_CLOEXEC | O_NOCTTY, 0600));
  if (!file.valid()) return;
  for (const int descriptor : descriptors) ::dup2(file.get(), descriptor);
}

// What the caller gave, apart from standard error and the status pipe, is closed or replaced.
void let_go_of_caller(int status) {
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::umask(077);
  if (::chdir("/") != 0) std::abort();  // "/" is always there
  redirect("/dev/null", O_RDWR, {STDIN_FILENO, STDOUT_FILENO});
  if (status != kStatusDescriptor) ::dup3(status, kStatusDescriptor, O_CLOEXEC);
  ::close_range(kStatusDescriptor + 1, UINT_MAX, 0);
}

int wait_for_start(int status, pid_t child) {
  unsigned char byte = kReady;
  ssize_t count = 0;
  do {
    count = ::read(status, &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count == 1 && byte == kReady) return kExitOk;
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0 && errno == EINTR) {
  }
  if (count == 1) return byte;
  if (WIFSIGNALED(ended)) {
    print_error(fmt::format("the daemon was ended by signal {} before the mount was ready", WTERMSIG(ended)));
  } else {
    print_error("the daemon ended before the mount was ready");
  }
  return kExitFailed;
}

}  // namespace

bool StartReport::ready() {
  if (!status_.valid()) return true;
  // Before the caller goes on: it may wait for the end of its standard error, too.
  const bool logs = !log_file_.empty();
  redirect(logs ? log_file_.c_str() : "/dev/null", logs ? O_WRONLY | O_APPEND : O_WRONLY,
           {STDOUT_FILENO, STDERR_FILENO});
  const bool heard = write_byte(status_.get(), kReady);
  status_.reset();
  return heard;
}

void StartReport::failed(int exit_code) {
  if (!status_.valid()) return;
  write_byte(status_.get(), static_cast<unsigned char>(exit_code));
  status_.reset();
}

int run_detached(const std::string& log_file, const std::function<int(StartReport&)>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    print_error("make a pipe: " + std::system_category().message(errno));
    return kExitFailed;
  }
  base::UniqueFd read_end(ends[0]);
  base::UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    print_error("fork: " + std::system_category().message(errno));
    return kExitFailed;
  }
  if (child > 0) {
    write_end.reset();
    return wait_for_start(read_end.get(), child);
  }
  let_go_of_caller(write_end.release());
  read_end.release();  // closed already
  int code = kExitFailed;
  {
    StartReport report(kStatusDescriptor, log_file);
    code = body(report);
    report.failed(code == kExitOk ? kExitFailed : code);
  }
  std::exit(code);
}

}  // namespace shardfs::app
