// A step of a prolog or epilog: one program with a time limit, outside of what it could hang in.
// Thread rule: thread-compatible; run_step blocks up to its limit and a few seconds for ending what overruns it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::app {

struct StepResult {
  int exit_code = 0;
  std::string output;  // standard output and error
};

/// Errors: kTimeout, kNotFound (no such program), kIo.
base::Result<StepResult> run_step(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                                  std::chrono::milliseconds limit);

/// "systemd-run --scope ..." if the daemons of a mount shall have a unit of their own, else empty.
/// scope: auto (where systemd runs), always, never.
std::vector<std::string> scope_command(const std::string& scope, const std::string& mountpoint);

/// This process's variables without what belongs to Slurm, to a user's shell, and the AWS tools.
std::vector<std::string> daemon_environment();

/// The path of this very program.
std::string this_program();

}  // namespace shardfs::app
