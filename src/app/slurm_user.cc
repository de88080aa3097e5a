#include "app/slurm_user.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/unique_fd.h"
#include "s3/profile_files.h"
#include "s3/profile_source.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;

}  // namespace

Result<void> become(const SlurmUser& user) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(64 << 10);
  const int error = ::getpwuid_r(user.uid, &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return fail_errno(Code::kNotFound, fmt::format("no user {} on this node", user.uid), error);
  if (::geteuid() == 0) {
    if (::initgroups(found->pw_name, user.gid) != 0 || ::setresgid(user.gid, user.gid, user.gid) != 0 ||
        ::setresuid(user.uid, user.uid, user.uid) != 0) {
      return fail_errno(Code::kPermission, fmt::format("become user {}", user.uid), errno);
    }
  }
  if (::getuid() != user.uid || ::geteuid() != user.uid || (user.uid != 0 && ::setuid(0) == 0))
    return fail(Code::kPermission, fmt::format("can't become user {}", user.uid));
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::setenv("HOME", found->pw_dir, 1);
  ::setenv("USER", found->pw_name, 1);
  ::setenv("LOGNAME", found->pw_name, 1);
  if (::chdir("/") != 0) return fail_errno(Code::kIo, "change to /", errno);
  return {};
}

Result<std::string> user_credentials(const std::string& file, const std::string& profile) {
  std::vector<std::string> of_the_node;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("AWS_")) of_the_node.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& name : of_the_node) ::unsetenv(name.c_str());
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  if (!file.empty()) ::setenv("AWS_SHARED_CREDENTIALS_FILE", file.c_str(), 1);
  const s3::StopSignal never;
  const auto keys = s3::profile_source(profile, true, {s3::process_environment(), "", "", ""})->load(never);
  if (!keys) return tl::unexpected(keys.error());
  if (!*keys) return fail(Code::kPermission, fmt::format("the profile '{}' holds no keys", profile));
  nlohmann::json shown = {
      {"Version", 1}, {"AccessKeyId", (*keys)->access_key_id}, {"SecretAccessKey", (*keys)->secret_access_key}};
  if (!(*keys)->session_token.empty()) shown["SessionToken"] = (*keys)->session_token;
  if ((*keys)->expires) {
    const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(*(*keys)->expires);
    shown["Expiration"] =
        fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
  }
  return shown.dump();
}

Result<void> append_line(const std::string& path, const std::string& line) {
  const base::UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0) return fail_errno(Code::kIo, "open " + path, errno);
  if (!S_ISREG(found.st_mode)) return fail(Code::kInvalid, path + " is not a plain file");
  const std::string text = line + "\n";
  if (::write(file.get(), text.data(), text.size()) < 0) return fail_errno(Code::kIo, "write " + path, errno);
  return {};
}

}  // namespace shardfs::app
