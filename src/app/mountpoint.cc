#include "app/mountpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "control/socket_path.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;

// The kernel writes blank, tab, line end and backslash as \ooo.
std::string unescape(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

// What there is of it: a file in /proc fails in the middle when its process ends, which an iterator would throw.
std::string read_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs fusermount3 with its messages thrown away; -1 if it can't be run.
int run_fusermount(const std::string& mountpoint, bool lazy) {
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, STDERR_FILENO);
    ::execlp("fusermount3", "fusermount3", lazy ? "-uz" : "-u", "--", mountpoint.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

bool is_dead(int error) { return error == ENOTCONN || error == ECONNABORTED; }

// Nothing of ours may be alive there; the state file is asked first, since a mount that hangs must not be touched.
Result<void> refuse_live_mount(const std::string& mountpoint, const MountEntry& entry) {
  const auto folder = control::runtime_folder();
  const auto state = folder ? control::read_state(*folder, mountpoint) : fail(Code::kNotFound, "");
  if (state && control::alive(*state)) {
    return fail(Code::kInvalid, fmt::format("{} is in use: {} is mounted there by process {}; shardfs umount {}",
                                            mountpoint, state->source, state->process_id, mountpoint));
  }
  // Not stat: the kernel answers that from memory for as long as the attributes are valid.
  struct statfs found {};
  if (::statfs(mountpoint.c_str(), &found) != 0 && is_dead(errno)) return {};
  return fail(Code::kInvalid, fmt::format("{} is in use: {} ({}) is mounted there; unmount it or take another folder",
                                          mountpoint, entry.source, entry.type));
}

Result<void> detach_remains(const std::string& mountpoint, std::vector<std::string>& notes) {
  const auto detached = unmount(mountpoint, true);
  if (!detached) return tl::unexpected(detached.error());
  notes.push_back(fmt::format("took away the remains of a mount on {} whose daemon had died", mountpoint));
  return {};
}

bool starts_with_path(const std::string& path, const std::string& folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/' || folder == "/");
}

std::string link_target(const std::filesystem::path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).string();
}

std::string how_it_holds(const std::filesystem::path& process, const std::string& mountpoint) {
  if (starts_with_path(link_target(process / "cwd"), mountpoint)) return "working directory";
  if (starts_with_path(link_target(process / "root"), mountpoint)) return "root directory";
  std::error_code error;
  std::filesystem::directory_iterator at(process / "fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string target = link_target(at->path());
    if (starts_with_path(target, mountpoint)) return "open file " + target;
  }
  std::istringstream maps(read_file((process / "maps").string()));
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && starts_with_path(line.substr(path), mountpoint)) {
      return "mapped file " + line.substr(path);
    }
  }
  return {};
}

}  // namespace

bool MountEntry::of_shardfs() const { return type == "fuse.shardfs"; }
bool MountEntry::of_fuse() const { return type == "fuse" || type == "fuseblk" || type.starts_with("fuse."); }

std::optional<MountEntry> find_mount(const std::string& mountinfo, const std::string& canonical_mountpoint) {
  std::optional<MountEntry> found;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS
    std::istringstream fields(line);
    std::string skipped, device, mountpoint, type, source;
    fields >> skipped >> skipped >> device >> skipped >> mountpoint;
    if (unescape(mountpoint) != canonical_mountpoint) continue;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> type >> source;
    found = MountEntry{canonical_mountpoint, type, unescape(source), device};  // later lines lie on top
  }
  return found;
}

std::optional<MountEntry> find_mount(const std::string& canonical_mountpoint) {
  return find_mount(read_file("/proc/self/mountinfo"), canonical_mountpoint);
}

std::optional<MountEntry> find_mount_above(const std::string& mountinfo, const std::string& canonical_path) {
  for (std::filesystem::path at = canonical_path; at.has_relative_path();) {
    at = at.parent_path();
    if (auto entry = find_mount(mountinfo, at.string())) return entry;
  }
  return std::nullopt;
}

std::optional<MountEntry> find_mount_above(const std::string& canonical_path) {
  return find_mount_above(read_file("/proc/self/mountinfo"), canonical_path);
}

Result<void> refuse_cache_below(const std::string& mountpoint, const std::string& folder) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(folder, error);
  if (error || !starts_with_path(real.string(), mountpoint)) return {};  // the cache says what is wrong with the folder
  return fail(Code::kInvalid, fmt::format("--cache-dir {} lies in the mountpoint {}; choose a folder outside of it",
                                          folder, mountpoint));
}

Result<void> prepare_mountpoint(const std::string& mountpoint, std::vector<std::string>& notes) {
  // Several dead mounts may lie on each other; the bound is against a mount that comes back by itself.
  for (int layers = 0; layers < 16; ++layers) {
    const auto entry = find_mount(mountpoint);
    if (!entry || !entry->of_fuse()) break;
    if (auto refused = refuse_live_mount(mountpoint, *entry); !refused) return refused;
    if (auto detached = detach_remains(mountpoint, notes); !detached) return detached;
  }
  struct stat found {};
  if (::stat(mountpoint.c_str(), &found) != 0) {
    const int error = errno;
    if (error == ENOENT)
      return fail(Code::kNotFound, fmt::format("the mountpoint {} does not exist; make the folder first", mountpoint));
    return fail_errno(error == EACCES ? Code::kPermission : Code::kIo, "the mountpoint " + mountpoint, error);
  }
  if (!S_ISDIR(found.st_mode))
    return fail(Code::kNotDirectory, fmt::format("the mountpoint {} is not a folder", mountpoint));
  std::error_code ignored;
  const std::filesystem::directory_iterator entries(mountpoint, ignored);
  if (!ignored && entries != std::filesystem::directory_iterator()) {
    notes.push_back(fmt::format("{} is not empty; what is in it is hidden while the mount is there", mountpoint));
  }
  return {};
}

Result<Unmounted> unmount(const std::string& canonical_mountpoint, bool lazy) {
  if (::umount2(canonical_mountpoint.c_str(), lazy ? MNT_DETACH : UMOUNT_NOFOLLOW) == 0) return Unmounted::kDone;
  const int error = errno;
  if (error == EBUSY) return Unmounted::kBusy;
  if (error == EINVAL || error == ENOENT) return Unmounted::kNotMounted;
  if (error != EPERM) return fail_errno(Code::kIo, "unmount " + canonical_mountpoint, error);
  const int code = run_fusermount(canonical_mountpoint, lazy);
  if (code == 0) return Unmounted::kDone;
  if (code < 0)
    return fail(Code::kPermission,
                fmt::format("unmount {}: not permitted, and fusermount3 is not there", canonical_mountpoint));
  if (!find_mount(canonical_mountpoint)) return Unmounted::kNotMounted;
  // fusermount3 tells the cases apart in words only.
  if (!holders_of(canonical_mountpoint).empty()) return Unmounted::kBusy;
  return fail(Code::kPermission,
              fmt::format("unmount {}: fusermount3 refused; is it another user's mount?", canonical_mountpoint));
}

// Source: Documentation/filesystems/fuse.rst: a connection is named by the minor number of its device.
bool abort_connection(const std::string& device) {
  const size_t colon = device.find(':');
  if (colon == std::string::npos) return false;
  const std::string path = "/sys/fs/fuse/connections/" + device.substr(colon + 1) + "/abort";
  const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() && ::write(file.get(), "1", 1) == 1;
}

std::vector<Holder> holders_of(const std::string& canonical_mountpoint) {
  std::vector<Holder> holders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (name == std::to_string(::getpid())) continue;
    std::string how = how_it_holds(entry.path(), canonical_mountpoint);
    if (how.empty()) continue;
    std::string command = read_file((entry.path() / "comm").string());
    while (command.ends_with('\n')) command.pop_back();
    holders.push_back({std::stoi(name), std::move(command), std::move(how)});
  }
  return holders;
}

}  // namespace shardfs::app
