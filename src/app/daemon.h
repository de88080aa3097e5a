// The detached daemon: fork first, tell the caller how the start went, and hold nothing of the caller's.
// Not the mount itself: that is the body which runs in the child.
// Thread rule: run_detached is called before the process has a second thread, a libcurl or a TLS state.
#pragma once

#include <functional>
#include <string>

#include "base/unique_fd.h"

namespace shardfs::app {

/// The child's side of the start. Confined to the child's main thread.
class StartReport {
 public:
  /// status: the pipe to the waiting parent; -1 in the foreground. log_file: where what is printed goes from ready on;
  /// empty: /dev/null.
  StartReport(int status, std::string log_file) : status_(status), log_file_(std::move(log_file)) {}
  /// The mount answers: the parent returns 0, and standard error is let go of. Until then the child's messages go to
  /// the caller's standard error. False: the caller has gone (Ctrl-C), nobody wants the mount any more.
  bool ready();
  /// The parent returns this code. Does nothing after ready.
  void failed(int exit_code);

 private:
  base::UniqueFd status_;
  std::string log_file_;
};

/// Runs the body in a child with a session of its own, "/" as its folder, /dev/null as input and output and no other
/// descriptor of the caller. Returns in the parent only: 0 when the body has called ready(), else the body's exit code;
/// the child ends with the body's exit code.
int run_detached(const std::string& log_file, const std::function<int(StartReport&)>& body);

}  // namespace shardfs::app
