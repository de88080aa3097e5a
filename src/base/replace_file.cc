#include "base/replace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace shardfs::base {

Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.valid()) return fail_errno(Code::kIo, "write " + temporary, errno);
  if (::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fchmod(file.get(), mode) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0) {
    return {};
  }
  const int error = errno;
  ::unlink(temporary.c_str());
  return fail_errno(Code::kIo, "write " + path, error);
}

}  // namespace shardfs::base
