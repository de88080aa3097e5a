// ChildProcess: one program that the demo or a prolog starts, in a process group of its own, killed with it if need be.
// Not the daemon: that is detached (daemon.h).
// Thread rule: confined to one thread. Owns the process until wait() has returned.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::app {

class ChildProcess {
 public:
  /// environment: "NAME=VALUE". Standard output comes to wait(); input is /dev/null; standard error is shared, or comes
  /// to wait() as well. Errors: kNotFound if there is no such program, kIo.
  static base::Result<ChildProcess> start(const std::vector<std::string>& command,
                                          const std::vector<std::string>& environment, bool with_errors = false);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills what still runs, and waits for it, for some seconds at most.
  ~ChildProcess();

  /// Hands each line of its output to on_line, and calls on_tick a few times a second. stop: a descriptor that becomes
  /// readable when the process has to end. Its exit code; 128 + N if signal N ended it. Errors: kCancelled, kIo.
  base::Result<int> wait(int stop, const std::function<void(const std::string&)>& on_line,
                         const std::function<void()>& on_tick);

 private:
  ChildProcess(pid_t process, base::UniqueFd output) : process_(process), output_(std::move(output)) {}
  void end_group();
  int reap();

  pid_t process_ = -1;
  base::UniqueFd output_;
};

}  // namespace shardfs::app
