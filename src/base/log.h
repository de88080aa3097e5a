// Logging: one place that knows where lines go. Keeps spdlog out of other headers.
// Thread rule: thread-safe after set_up.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info", "warning", "error", "off". Errors: kInvalid.
Result<LogLevel> parse_log_level(std::string_view text);

/// file: empty means standard error; else lines are appended, and a new file gets mode 0600. Without this call,
/// warnings and errors go to standard error. May be called again (after a fork). Errors: kIo if the file can't be
/// opened.
Result<void> set_up_log(LogLevel level, const std::string& file);

bool log_enabled(LogLevel level);
/// One line: control characters in the text are escaped, since keys and server answers end up here.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

/// Subjects that first_time remembers. Source: about 1 MiB with the longest keys (1,024 bytes).
inline constexpr size_t kFirstTimeSubjects = 1024;

/// True the first time it is asked for this subject (a bounded table; old subjects may come back).
bool first_time(std::string_view subject);

/// A warning once for each subject.
template <class... Args>
void warn_once(std::string_view subject, fmt::format_string<Args...> format, Args&&... args) {
  if (first_time(subject)) log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

}  // namespace shardfs::base
