#include "app/debug_bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "app/child_process.h"
#include "app/slurm_step.h"
#include "base/unique_fd.h"
#include "shardfs/control_client.h"
#include "shardfs/version.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail_errno;
using base::Result;
using std::chrono::milliseconds;

// Source: a day of warnings; the beginning of a log says less than its end.
constexpr off_t kLogBytes = 1 << 20;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/shardfs-debug-XXXXXX";
    if (::mkdtemp(name) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_tail(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0)
    return fmt::format("({}: {})\n", path, std::system_category().message(errno));
  std::string text;
  off_t at = std::max<off_t>(0, found.st_size - kLogBytes);  // files of /proc have no size: from their beginning
  char piece[65536];
  for (ssize_t count = 0; (count = ::pread(file.get(), piece, sizeof(piece), at)) > 0; at += count) {
    text.append(piece, static_cast<size_t>(count));
    if (text.size() > 2 * static_cast<size_t>(kLogBytes)) break;
  }
  return text;
}

std::string lines_of(std::string zero_separated) {
  std::replace(zero_separated.begin(), zero_separated.end(), '\0', '\n');
  return zero_separated;
}

// Settings of shardfs whole, of all others the name: a value may be anything.
std::string variables_of(const std::string& environment) {
  std::istringstream lines(lines_of(environment));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find('='));
    text += line.starts_with("SHARDFS_") ? line + "\n" : name + "=…\n";
  }
  return text;
}

std::string run(const std::vector<std::string>& command) {
  const auto done = run_step(command, daemon_environment(), milliseconds(5000));
  return done ? done->output : fmt::format("({})\n", done.error().message);
}

std::string machine() {
  utsname names{};
  ::uname(&names);
  return fmt::format("shardfs {}\n{} {} {}\n\n{}\n{}\n{}\n{}", version(), names.sysname, names.release, names.machine,
                     run({this_program(), "version"}), read_tail("/etc/os-release"), run({"ldd", this_program()}),
                     read_tail("/proc/meminfo"));
}

std::string fuse_mounts() {
  std::istringstream lines(read_tail("/proc/self/mountinfo"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" - fuse") != std::string::npos) text += line + "\n";
  }
  return text;
}

std::string stats_of(const control::MountState& mount) {
  auto client = ControlClient::connect(mount.socket, milliseconds(2000));
  const auto answer = client ? client->stats() : tl::unexpected(client.error());
  return answer ? *answer + "\n" : fmt::format("({})\n", answer.error().message);
}

// Where the daemon's lines go: its standard error.
std::string log_of(const std::string& process) {
  std::error_code error;
  std::string path = std::filesystem::read_symlink(process + "/fd/2", error).string();
  if (error) {
    // Only root looks into a process that allows no core dumps; its command line is open.
    std::istringstream words(lines_of(read_tail(process + "/cmdline")));
    for (std::string word; std::getline(words, word);) {
      if (word.starts_with("--log-file=")) path = word.substr(11);
      if (word == "--log-file") std::getline(words, path);
    }
  }
  if (path.empty() || path == "/dev/null" || !path.starts_with('/')) return "(no log file: --log-file)\n";
  return read_tail(path);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << without_secrets(text);
}

}  // namespace

std::string without_secrets(const std::string& text) {
  // Keys of AWS by their beginning, what follows a telling name, and users in addresses.
  static const std::regex kKeys(R"(\b(AKIA|ASIA|AROA)[A-Z0-9]{8,})");
  static const std::regex kNamed(
      R"re(((?:secret|token|passw(?:or)?d|signature|credential|access_key_id)[a-z_-]*"?\s*[=:]\s*)("[^"\n]*"|[^\s&,;"]+))re",
      std::regex::icase);
  static const std::regex kUsers(R"((://)[^/@\s]+@)");
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, kKeys, "[removed]");
    line = std::regex_replace(line, kNamed, "$1[removed]");
    result += std::regex_replace(line, kUsers, "$1[removed]@") + "\n";
  }
  return result;
}

Result<void> write_debug_bundle(const std::string& file, const std::vector<control::MountState>& mounts) {
  const Folder folder;
  if (folder.path().empty()) return fail_errno(Code::kIo, "make a folder in /tmp", errno);
  const std::string top = folder.path() + "/shardfs-debug";
  std::filesystem::create_directory(top);
  write(top + "/machine.txt", machine());
  write(top + "/mounts.txt", fuse_mounts());
  for (const auto* name : {"config.toml", "slurm.toml"}) {
    if (::access((std::string("/etc/shardfs/") + name).c_str(), F_OK) == 0)
      write(top + "/" + name, read_tail(std::string("/etc/shardfs/") + name));
  }
  for (size_t i = 0; i < mounts.size(); ++i) {
    const auto& mount = mounts[i];
    const std::string at = fmt::format("{}/mount-{}", top, i);
    const std::string process = fmt::format("/proc/{}", mount.process_id);
    std::filesystem::create_directory(at);
    write(at + "/mount.txt", fmt::format("{} on {}, process {}\n", mount.source, mount.mountpoint, mount.process_id));
    write(at + "/command.txt", lines_of(read_tail(process + "/cmdline")));
    write(at + "/variables.txt", variables_of(read_tail(process + "/environ")));
    for (const auto* name : {"status", "limits", "cgroup", "oom_score_adj", "io"})
      write(at + "/process-" + name + ".txt", read_tail(process + "/" + name));
    write(at + "/log.txt", log_of(process));
    write(at + "/stats-1.json", stats_of(mount));
  }
  // Two snapshots, so that rates can be seen.
  if (!mounts.empty()) std::this_thread::sleep_for(milliseconds(1000));
  for (size_t i = 0; i < mounts.size(); ++i)
    write(fmt::format("{}/mount-{}/stats-2.json", top, i), stats_of(mounts[i]));

  const base::UniqueFd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made.valid()) return fail_errno(Code::kIo, "write " + file, errno);
  const auto packed =
      run_step({"tar", "-czf", std::filesystem::absolute(file).string(), "-C", folder.path(), "shardfs-debug"},
               daemon_environment(), milliseconds(60000));
  if (packed && packed->exit_code == 0) return {};
  ::unlink(file.c_str());
  return base::fail(Code::kIo, "tar: " + (packed ? packed->output : packed.error().message));
}

}  // namespace shardfs::app
