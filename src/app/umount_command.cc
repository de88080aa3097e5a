#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "app/command.h"
#include "app/message.h"
#include "app/mountpoint.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "control/mount_lock.h"
#include "control/socket_path.h"

namespace shardfs::app {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

struct Arguments {
  std::string mountpoint;
  bool lazy = false;
  bool force = false;
  std::string timeout = "30s";
};

// The daemon that serves a mountpoint, held by a descriptor so that its process id can't become another's.
class Daemon {
 public:
  Daemon(std::string folder, std::string mountpoint) : folder_(std::move(folder)), mountpoint_(std::move(mountpoint)) {
    const auto state = control::read_state(folder_, mountpoint_);
    if (!state || !control::alive(*state)) return;
    process_id_ = state->process_id;
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process_id_, 0)));
    if (!control::alive(*state)) process_.reset();
  }
  bool alive() const { return process_.valid(); }
  int process_id() const { return process_id_; }
  /// True when it has ended.
  bool wait_until(SteadyClock::time_point deadline) const {
    while (alive()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - SteadyClock::now()).count();
      pollfd watched = {process_.get(), POLLIN, 0};
      const int ready = ::poll(&watched, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
      if (ready > 0) return true;
      if (left <= 0) return false;
    }
    return true;
  }
  void kill() const { ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0); }
  void remove_files() const {
    // Of a daemon that was killed; one that lives removes its own.
    const auto lock = control::MountLock::take(folder_, mountpoint_, milliseconds(0));
    if (lock) control::remove_state(folder_, mountpoint_);
  }

 private:
  std::string folder_;
  std::string mountpoint_;
  int process_id_ = 0;
  base::UniqueFd process_;
};

void print_holders(const std::string& mountpoint, bool goes_anyway) {
  const auto holders = holders_of(mountpoint);
  const std::string what = fmt::format("{} is busy{}", mountpoint,
                                       holders.empty() ? ", by a process that this user can't see or a mount within it"
                                       : goes_anyway   ? ", by:"
                                                       : "; end these processes, or use --lazy:");
  goes_anyway ? print_note(what) : print_error(what);
  for (const Holder& holder : holders) {
    fmt::print(stderr, "  {} ({}): {}\n", holder.process_id, holder.name, holder.how);
  }
}

// A process that has just ended may still hold its files for a moment.
base::Result<Unmounted> unmount_patiently(const std::string& mountpoint, SteadyClock::time_point deadline) {
  for (;;) {
    auto result = unmount(mountpoint, false);
    if (!result || *result != Unmounted::kBusy || SteadyClock::now() >= deadline) return result;
    ::poll(nullptr, 0, 50);
  }
}

// Ends a daemon whose mount is detached. False: it is still there.
bool end_daemon(const Daemon& daemon, const std::string& device, const std::string& mountpoint) {
  // Source: an aborted connection answers at once; a process that was killed is gone as soon as the kernel lets go of
  // it.
  constexpr milliseconds kPatience{5000};
  if (abort_connection(device)) {
    print_note(fmt::format("{}: aborted its connection; what is open there now fails", mountpoint));
    if (daemon.wait_until(SteadyClock::now() + kPatience)) return true;
  }
  print_note(fmt::format("{}: killed its daemon (process {})", mountpoint, daemon.process_id()));
  daemon.kill();
  return daemon.wait_until(SteadyClock::now() + kPatience);
}

int umount(const Arguments& arguments) {
  const auto timeout = base::parse_duration(arguments.timeout);
  if (!timeout) {
    print_error("--timeout: " + timeout.error().message);
    return kExitUsage;
  }
  const auto deadline = SteadyClock::now() + std::min<milliseconds>(*timeout, std::chrono::hours(24 * 365));
  const auto mountpoint = control::canonical_mountpoint(arguments.mountpoint);
  if (!mountpoint) {
    print_error(mountpoint.error().message);
    return kExitFailed;
  }
  const auto folder = control::runtime_folder();
  const Daemon daemon(folder.value_or(""), *mountpoint);
  const auto entry = find_mount(*mountpoint);
  if (entry && !entry->of_shardfs()) {
    print_error(fmt::format("{} is not a mount of shardfs but of {} ({})", *mountpoint, entry->source, entry->type));
    return kExitFailed;
  }
  if (!entry) {
    if (const auto above = find_mount_above(*mountpoint); above && above->of_shardfs()) {
      print_error(fmt::format("{} lies in the mount on {}: shardfs umount {}", *mountpoint, above->mountpoint,
                              above->mountpoint));
      return kExitFailed;
    }
  }
  bool detached = false;
  if (!entry) {
    print_note(fmt::format("nothing is mounted on {}", *mountpoint));
  } else {
    // Source: long enough for a process that was killed just now, short for somebody who waits at a prompt.
    auto result = unmount_patiently(*mountpoint, std::min(deadline, SteadyClock::now() + milliseconds(1000)));
    if (result && *result == Unmounted::kBusy && (arguments.lazy || arguments.force)) {
      print_holders(*mountpoint, true);
      result = unmount(*mountpoint, true);
      detached = true;
    }
    if (!result) {
      print_error(result.error().message);
      return kExitFailed;
    }
    if (*result == Unmounted::kBusy) {
      print_holders(*mountpoint, false);
      return kExitFailed;
    }
  }
  if (detached && !arguments.force) {
    print_note(fmt::format("{} is detached; its daemon{} ends when the last file is closed", *mountpoint,
                           daemon.alive() ? fmt::format(" (process {})", daemon.process_id()) : ""));
    return kExitOk;
  }
  if (!daemon.wait_until(deadline) &&
      !(arguments.force && end_daemon(daemon, entry ? entry->device : "", *mountpoint))) {
    print_error(fmt::format("{} is unmounted, but its daemon (process {}) has not ended within {}", *mountpoint,
                            daemon.process_id(), arguments.timeout));
    return kExitFailed;
  }
  if (folder) daemon.remove_files();
  return kExitOk;
}

}  // namespace

void add_umount_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("umount", "Unmount, and wait until the daemon has ended");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->mountpoint, "The mountpoint")->required();
  command->add_flag("--lazy", arguments->lazy,
                    "If it is busy, detach it: the name goes now, the daemon with the last open file");
  command->add_flag("--force", arguments->force,
                    "As --lazy, and what has not ended in time is ended: the FUSE connection is aborted, then the "
                    "daemon killed");
  command->add_option("--timeout", arguments->timeout, "How long to wait for the daemon's end. Default: 30s")
      ->type_name("TIME");
  command->footer(
      "Success if nothing is mounted there any more. If a process has its working directory or a file in the mount,\n"
      "it is listed, and the exit code is 1.\n"
      "\n"
      "Examples:\n"
      "  shardfs umount /data\n"
      "  shardfs umount --force --timeout 10s /data      whatever holds it");
  command->callback([arguments, &exit_code] { exit_code = umount(*arguments); });
}

}  // namespace shardfs::app
