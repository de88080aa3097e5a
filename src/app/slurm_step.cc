#include "app/slurm_step.h"

#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "app/child_process.h"
#include "base/unique_fd.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::Result;

std::string words_of(const std::vector<std::string>& command) {
  std::string text = std::filesystem::path(command.front()).filename().string();
  for (size_t i = 1; i < std::min<size_t>(command.size(), 3); ++i) text += " " + command[i];
  return text;
}

}  // namespace

Result<StepResult> run_step(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                            std::chrono::milliseconds limit) {
  const base::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec end{};
  end.it_value.tv_sec = static_cast<time_t>(limit.count() / 1000);
  end.it_value.tv_nsec = static_cast<long>(limit.count() % 1000 * 1000000);
  if (!timer.valid() || ::timerfd_settime(timer.get(), 0, &end, nullptr) != 0)
    return base::fail_errno(Code::kIo, "make a timer", errno);
  auto child = ChildProcess::start(command, environment, true);
  if (!child) return tl::unexpected(std::move(child.error()));
  StepResult result;
  const auto code = child->wait(
      timer.get(), [&](const std::string& line) { result.output += line + "\n"; }, [] {});
  if (!code && code.error().code == Code::kCancelled) {
    const std::string said = result.output.empty() ? "" : "; it said: " + result.output;
    return base::fail(Code::kTimeout, fmt::format("{}: not done within {} s{}", words_of(command),
                                                  std::chrono::duration<double>(limit).count(), said));
  }
  if (!code) return tl::unexpected(code.error());
  result.exit_code = *code;
  return result;
}

std::vector<std::string> scope_command(const std::string& scope, const std::string& mountpoint) {
  std::error_code error;
  // Source: sd_booted(3).
  const bool booted = std::filesystem::is_directory("/run/systemd/system", error);
  if (scope == "never" || (scope == "auto" && !booted)) return {};
  // In a scope the daemon is in nobody's job and in no service that is restarted; without systemd it is at least in a
  // session of its own, and the prolog's processes are not the job's.
  return {
      "systemd-run", "--scope", "--quiet", "--collect", "--slice=system.slice", "--description=shardfs " + mountpoint,
      "--"};
}

std::vector<std::string> daemon_environment() {
  constexpr std::string_view kDropped[] = {"SLURM", "SBATCH_", "SPANK_",   "AWS_",
                                           "HOME=", "USER=",   "LOGNAME=", "NOTIFY_SOCKET="};
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool dropped = std::any_of(std::begin(kDropped), std::end(kDropped),
                                     [&](std::string_view start) { return text.starts_with(start); });
    // Settings come from the site's file only.
    const bool setting =
        text.starts_with("SHARDFS_") && !text.starts_with("SHARDFS_RUNTIME_DIR=") && !text.starts_with("SHARDFS_TEST");
    if (!dropped && !setting) kept.emplace_back(text);
  }
  if (::getenv("PATH") == nullptr)
    kept.emplace_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  return kept;
}

std::string this_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

}  // namespace shardfs::app
