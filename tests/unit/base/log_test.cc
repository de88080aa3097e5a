#include "base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "base/unique_fd.h"

namespace shardfs::base {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  return all;
}

// Each digit as 0, and a time zone west of Greenwich as one east of it.
std::string shape(std::string line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] >= '0' && line[i] <= '9') line[i] = '0';
    if (i == 23 && line[i] == '-') line[i] = '+';
  }
  return line;
}

// Sends the log back to standard error when a test ends.
struct Restore {
  ~Restore() { static_cast<void>(set_up_log(LogLevel::kWarning, "")); }
};

TEST_CASE("log levels have five names and no others") {
  CHECK(parse_log_level("debug") == LogLevel::kDebug);
  CHECK(parse_log_level("info") == LogLevel::kInfo);
  CHECK(parse_log_level("warning") == LogLevel::kWarning);
  CHECK(parse_log_level("error") == LogLevel::kError);
  CHECK(parse_log_level("off") == LogLevel::kOff);
  for (const std::string text : {"", "warn", "Info", "trace", "info ", "1"}) {
    const auto level = parse_log_level(text);
    REQUIRE_FALSE(level);
    CHECK(level.error().code == Code::kInvalid);
  }
}

TEST_CASE("lines go to the file with time and level, from the level on") {
  TemporaryFolder folder;
  Restore restore;
  const std::string path = folder / "log";
  REQUIRE(set_up_log(LogLevel::kInfo, path));
  struct ::stat status;
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK_FALSE(log_enabled(LogLevel::kDebug));
  CHECK(log_enabled(LogLevel::kInfo));
  log_debug("hidden {}", 1);
  log_info("read {} of {}", 2, "a/b");
  log_warning("{{}}");
  log_error("last");
  const auto all = lines(path);
  REQUIRE(all.size() == 3);
  const std::string time = "0000-00-00T00:00:00.000+00:00 ";
  CHECK(shape(all[0]) == time + "info read 0 of a/b");
  CHECK(shape(all[1]) == time + "warning {}");
  CHECK(shape(all[2]) == time + "error last");
}

TEST_CASE("off is silent") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kOff, folder / "log"));
  log_error("hidden");
  CHECK_FALSE(log_enabled(LogLevel::kError));
  CHECK_FALSE(log_enabled(LogLevel::kOff));
  CHECK(contents(folder / "log").empty());
}

TEST_CASE("setting up again appends, and moves to the new file") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "first"));
  log_info("one");
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "first"));
  log_info("two");
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "second"));
  log_info("three");
  CHECK(lines(folder / "first").size() == 2);
  CHECK(lines(folder / "second").size() == 1);
}

TEST_CASE("a file that can't be opened is an error, and the log stays where it was") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "log"));
  const auto result = set_up_log(LogLevel::kInfo, folder / "none/log");
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::kIo);
  CHECK(result.error().sys_errno == ENOENT);
  CHECK(result.error().message.find(folder / "none/log") != std::string::npos);
  log_info("still here");
  CHECK(lines(folder / "log").size() == 1);
}

TEST_CASE("a key with line breaks can't forge a line") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "log"));
  log_info("key {}", "a\nb\r\x1b[2J\x7f");
  log_info("umlaut {}", "ü");
  const auto all = lines(folder / "log");
  REQUIRE(all.size() == 2);
  CHECK(all[0].ends_with("key a\\x0ab\\x0d\\x1b[2J\\x7f"));
  CHECK(all[1].ends_with("umlaut ü"));
}

TEST_CASE("an empty file name means standard error, without colours") {
  TemporaryFolder folder;
  const std::string path = folder / "stderr";
  const UniqueFd saved(::dup(2));
  {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::dup2(file.get(), 2) == 2);
  }
  const bool ok = set_up_log(LogLevel::kWarning, "").has_value();
  log_warning("to standard error");
  ::dup2(saved.get(), 2);
  CHECK(ok);
  const std::string text = contents(path);
  CHECK(text.ends_with(" warning to standard error\n"));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a subject is new once, and the table is bounded") {
  CHECK(first_time("subject"));
  CHECK_FALSE(first_time("subject"));
  CHECK(first_time("other subject"));
  for (size_t n = 0; n < kFirstTimeSubjects; ++n) CHECK(first_time("filler " + std::to_string(n)));
  CHECK_FALSE(first_time("filler " + std::to_string(kFirstTimeSubjects - 1)));
  CHECK(first_time("subject"));
}

TEST_CASE("one of many threads is the first") {
  std::atomic<int> first{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n) first += first_time("raced " + std::to_string(n)) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(first == 100);
}

TEST_CASE("warn_once writes one line a subject") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "log"));
  for (int n = 0; n < 3; ++n) warn_once("disk full", "no space, try {}", n);
  warn_once("disk dead", "no disk");
  CHECK(lines(folder / "log").size() == 2);
}

TEST_CASE("lines of many threads stay whole") {
  TemporaryFolder folder;
  Restore restore;
  REQUIRE(set_up_log(LogLevel::kInfo, folder / "log"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int n = 0; n < 50; ++n) log_info("thread {} line {} end", t, n);
    });
  }
  for (auto& thread : threads) thread.join();
  const auto all = lines(folder / "log");
  CHECK(all.size() == 200);
  for (const auto& line : all) CHECK(line.ends_with(" end"));
}

}  // namespace
}  // namespace shardfs::base
