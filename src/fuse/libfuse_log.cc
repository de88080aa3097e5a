#include "fuse/libfuse_log.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/log.h"
#include "fuse/libfuse.h"

namespace shardfs::fuse {
namespace {

std::mutex mutex;  // guards last
std::string last;

void write_line(enum fuse_log_level level, const char* format, va_list arguments) noexcept {
  char text[512];
  if (std::vsnprintf(text, sizeof(text), format, arguments) < 0) return;
  std::string line = text;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  const bool problem = level <= FUSE_LOG_WARNING;
  if (problem) base::log_warning("{}", line);
  if (!problem) base::log_debug("{}", line);
  std::lock_guard lock(mutex);
  last = std::move(line);
}

}  // namespace

LibfuseLog::LibfuseLog() {
  fuse_set_log_func(write_line);
  std::lock_guard lock(mutex);
  last.clear();
}

std::string LibfuseLog::last_line() const {
  std::lock_guard lock(mutex);
  return last;
}

}  // namespace shardfs::fuse
