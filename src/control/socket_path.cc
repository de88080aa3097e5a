#include "control/socket_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/replace_file.h"
#include "base/unique_fd.h"

namespace shardfs::control {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;

std::string name_of(const std::string& mountpoint) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bit
  for (const char c : mountpoint) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

std::string environment(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string state_path(const std::string& folder, const std::string& mountpoint) {
  return fmt::format("{}/{}.json", folder, name_of(mountpoint));
}

Result<MountState> parse_state(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(errno == ENOENT ? Code::kNotFound : Code::kIo, "open " + path, errno);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(Code::kInvalid, path + " is not the state of a mount");
  const auto text_of = [&json](const char* key) {
    const auto place = json.find(key);
    return place != json.end() && place->is_string() ? place->get<std::string>() : std::string();
  };
  MountState state;
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number_integer()) {
    state.process_id = static_cast<int>(pid->get<int64_t>());
  }
  state.process_start = text_of("process_start");
  state.mountpoint = text_of("mountpoint");
  state.source = text_of("source");
  state.socket = text_of("socket");
  if (state.process_id <= 0 || state.mountpoint.empty())
    return fail(Code::kInvalid, path + " is not the state of a mount");
  return state;
}

}  // namespace

Result<std::string> runtime_folder() {
  const uid_t uid = ::geteuid();
  std::string folder = environment("SHARDFS_RUNTIME_DIR");
  if (folder.empty() && uid == 0) folder = "/run/shardfs";
  if (folder.empty()) {
    const std::string user_folder = environment("XDG_RUNTIME_DIR");
    folder = user_folder.empty() ? fmt::format("/tmp/shardfs-{}", uid) : user_folder + "/shardfs";
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(Code::kIo, "make the folder " + folder, errno);
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return fail_errno(Code::kIo, "look at the folder " + folder, errno);
  if (!S_ISDIR(found.st_mode) || found.st_uid != uid || (found.st_mode & 022) != 0) {
    return fail(Code::kPermission,
                fmt::format("{} must be a folder of user {} that nobody else may write to; set SHARDFS_RUNTIME_DIR to "
                            "use another one",
                            folder, uid));
  }
  return folder;
}

Result<std::string> canonical_mountpoint(const std::string& path) {
  std::string at = path;
  // Source: the kernel follows at most 40 links (MAXSYMLINKS).
  for (int links = 0; links < 40; ++links) {
    while (at.size() > 1 && at.ends_with('/')) at.pop_back();
    const size_t slash = at.rfind('/');
    std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : at.substr(0, slash);
    const std::string name = slash == std::string::npos ? at : at.substr(slash + 1);
    const bool whole = name.empty() || name == "." || name == "..";
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(whole ? at.c_str() : parent.c_str(), nullptr),
                                                           &std::free);
    if (!real) {
      const int error = errno;
      return fail_errno(error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo, path, error);
    }
    if (whole) return std::string(real.get());
    parent = real.get();
    at = (parent == "/" ? parent : parent + "/") + name;
    // readlink asks the folder that holds the name, never the file system mounted on it.
    char target[PATH_MAX];
    const ssize_t length = ::readlink(at.c_str(), target, sizeof(target));
    if (length < 0) {
      // EINVAL: not a link. ENOTCONN and the like: there is something, and it is no link.
      if (errno == ENOENT) return fail_errno(Code::kNotFound, path, ENOENT);
      return at;
    }
    const std::string link(target, static_cast<size_t>(length));
    at = link.starts_with('/') ? link : parent + "/" + link;
  }
  return fail_errno(Code::kIo, path, ELOOP);
}

Result<std::string> socket_path(const std::string& folder, const std::string& canonical_mountpoint) {
  std::string path = fmt::format("{}/{}.sock", folder, name_of(canonical_mountpoint));
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Code::kInvalid,
                fmt::format("{} is too long for a socket; set SHARDFS_RUNTIME_DIR to a shorter folder", path));
  }
  return path;
}

std::string process_start(int process_id) {
  const std::ifstream file(fmt::format("/proc/{}/stat", process_id));
  std::ostringstream read;
  read << file.rdbuf();  // no iterator: it would throw when the process ends meanwhile
  const std::string text = read.str();
  // The second field is a name in brackets that may hold anything; the third starts behind the last bracket.
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return {};
  size_t begin = bracket + 2;
  for (int field = 3; field < 22 && begin != std::string::npos; ++field) {
    begin = text.find(' ', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos || begin >= text.size()) return {};
  // A zombie has ended: it waits for its parent only.
  if (text[bracket + 2] == 'Z') return {};
  return text.substr(begin, text.find(' ', begin) - begin);
}

bool alive(const MountState& state) {
  const std::string start = process_start(state.process_id);
  return !start.empty() && start == state.process_start;
}

Result<void> write_state(const std::string& folder, const MountState& state) {
  const std::string path = state_path(folder, state.mountpoint);
  const nlohmann::json json = {{"pid", state.process_id},
                               {"process_start", state.process_start},
                               {"mountpoint", state.mountpoint},
                               {"source", state.source},
                               {"socket", state.socket}};
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return base::replace_file(path, text, 0600);
}

std::string lock_path(const std::string& folder, const std::string& canonical_mountpoint) {
  return fmt::format("{}/{}.lock", folder, name_of(canonical_mountpoint));
}

Result<MountState> read_state(const std::string& folder, const std::string& canonical_mountpoint) {
  auto state = parse_state(state_path(folder, canonical_mountpoint));
  if (state && state->mountpoint != canonical_mountpoint) {
    return fail(Code::kNotFound, "no state of a mount on " + canonical_mountpoint);
  }
  return state;
}

void remove_state(const std::string& folder, const std::string& canonical_mountpoint) {
  ::unlink(state_path(folder, canonical_mountpoint).c_str());
  ::unlink(fmt::format("{}/{}.sock", folder, name_of(canonical_mountpoint)).c_str());
}

std::vector<MountState> list_states(const std::string& folder) {
  std::vector<MountState> states;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), &::closedir);
  if (!listing) return states;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (!name.ends_with(".json")) continue;
    auto state = parse_state(folder + "/" + name);
    if (state && alive(*state)) states.push_back(std::move(*state));
  }
  std::sort(states.begin(), states.end(),
            [](const MountState& a, const MountState& b) { return a.mountpoint < b.mountpoint; });
  return states;
}

}  // namespace shardfs::control
