#include "app/start_log.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

#include "app/message.h"
#include "base/log.h"

namespace shardfs::app {

base::Result<StartLog> StartLog::begin(const MountOptions& options) {
  base::UniqueFd held;
  if (options.log_file.empty() && options.log_level >= base::LogLevel::kWarning) {
    held.reset(::memfd_create("shardfs-start", MFD_CLOEXEC));
  }
  const std::string file = held.valid() ? fmt::format("/proc/self/fd/{}", held.get()) : options.log_file;
  if (auto done = base::set_up_log(options.log_level, file); !done) return tl::unexpected(std::move(done.error()));
  return StartLog(options.log_level, std::move(held));
}

void StartLog::release() {
  if (!held_.valid()) return;
  // To standard error again; cannot fail without a file.
  [[maybe_unused]] const auto done = base::set_up_log(level_, "");
  std::string text;
  char piece[4096];
  off_t at = 0;
  for (ssize_t count = 0; (count = ::pread(held_.get(), piece, sizeof(piece), at)) > 0; at += count) {
    text.append(piece, static_cast<size_t>(count));
  }
  held_.reset();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // TIME LEVEL TEXT
    const size_t level = line.find(' ');
    const size_t message = level == std::string::npos ? level : line.find(' ', level + 1);
    if (message == std::string::npos) continue;
    print_line(fmt::format("shardfs: {}: {}", line.substr(level + 1, message - level - 1), line.substr(message + 1)));
  }
}

}  // namespace shardfs::app
