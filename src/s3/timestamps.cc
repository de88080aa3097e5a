#include "s3/timestamps.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>

namespace shardfs::s3 {
namespace {

/// The number in text[at, at + digits), or -1.
int number(std::string_view text, size_t at, size_t digits) {
  if (at + digits > text.size()) return -1;
  int value = -1;
  const char* end = text.data() + at + digits;
  const auto [stop, error] = std::from_chars(text.data() + at, end, value);
  return error == std::errc{} && stop == end ? value : -1;
}

}  // namespace

std::optional<base::WallTime> parse_iso_time(std::string_view text) {
  // YYYY-MM-DDThh:mm:ss[.fraction][Z]
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const int year = number(text, 0, 4), month = number(text, 5, 2), day = number(text, 8, 2);
  const int hour = number(text, 11, 2), minute = number(text, 14, 2), second = number(text, 17, 2);
  if (year < 0 || month < 0 || day < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60) {
    return std::nullopt;
  }
  const auto date = std::chrono::year(year) / static_cast<unsigned>(month) / static_cast<unsigned>(day);
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

std::optional<base::WallTime> parse_http_time(const std::string& text) {
  const time_t seconds = curl_getdate(text.c_str(), nullptr);
  if (seconds == -1) return std::nullopt;
  return base::WallTime(std::chrono::seconds(seconds));
}

std::string format_amz_date(base::WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

}  // namespace shardfs::s3
