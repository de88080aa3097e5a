#include "base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "base/unique_fd.h"

namespace shardfs::base {
namespace {

// The journal has a time of its own, and takes the level from a line's beginning. Source: sd-daemon(3),
// systemd.exec(5).
class JournalLevel final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    const int level = message.level >= spdlog::level::err    ? 3
                      : message.level == spdlog::level::warn ? 4
                      : message.level == spdlog::level::info ? 6
                                                             : 7;
    fmt::format_to(std::back_inserter(line), "<{}>", level);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JournalLevel>(); }
};

bool standard_error_is_the_journal() {
  const char* const stream = ::getenv("JOURNAL_STREAM");
  struct stat found {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &found) == 0 &&
         fmt::format("{}:{}", found.st_dev, found.st_ino) == stream;
}

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, bool journal = false) {
  auto logger = std::make_shared<spdlog::logger>("shardfs", std::move(sink));
  if (journal) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JournalLevel>('*').set_pattern("%*%v");
    logger->set_formatter(std::move(formatter));
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  }
  logger->set_level(spdlog::level::trace);  // log_enabled decides
  logger->flush_on(spdlog::level::info);    // info lines are rare, and someone may follow the file
  return logger;
}

struct State {
  std::atomic<LogLevel> level{LogLevel::kWarning};
  std::mutex mutex;  // guards all below
  std::shared_ptr<spdlog::logger> logger = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::unordered_set<std::string> subjects;
  std::deque<const std::string*> oldest_first;  // into subjects, whose elements don't move
};

// Never destroyed: threads may log while the process ends.
State& state() {
  static State& kept = *new State;
  return kept;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (is_control(c)) {
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return fail(Code::kInvalid, fmt::format("\"{}\" is not a log level: debug, info, warning, error or off", text));
}

Result<void> set_up_log(LogLevel level, const std::string& file) {
  spdlog::sink_ptr sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    // Made here first, since the sink would make it readable for others.
    const UniqueFd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const int open_error = errno;
    if (!made.valid()) return fail_errno(Code::kIo, "open the log file " + file, open_error);
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex& error) {
      return fail(Code::kIo, fmt::format("open the log file {}: {}", file, error.what()));
    }
  }
  auto logger = make_logger(std::move(sink), file.empty() && standard_error_is_the_journal());
  State& log = state();
  std::lock_guard lock(log.mutex);
  log.logger.swap(logger);
  log.level = level;
  return {};
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::kOff && level >= state().level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) {
  State& log = state();
  std::shared_ptr<spdlog::logger> logger;
  {
    std::lock_guard lock(log.mutex);
    logger = log.logger;
  }
  const bool plain = std::none_of(text.begin(), text.end(), is_control);
  const std::string safe = plain ? std::string() : escape(text);
  const std::string_view line = plain ? text : safe;
  logger->log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

bool first_time(std::string_view subject) {
  State& log = state();
  std::lock_guard lock(log.mutex);
  const auto [place, added] = log.subjects.emplace(subject);
  if (!added) return false;
  log.oldest_first.push_back(&*place);
  if (log.oldest_first.size() > kFirstTimeSubjects) {
    log.subjects.erase(*log.oldest_first.front());
    log.oldest_first.pop_front();
  }
  return true;
}

}  // namespace shardfs::base
