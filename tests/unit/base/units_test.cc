#include "base/units.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace shardfs::base {
namespace {

TEST_CASE("parse_bytes takes the ways in which people write sizes") {
  struct {
    const char* text;
    uint64_t bytes;
  } const cases[] = {{"0", 0},
                     {"4096", 4096},
                     {"17B", 17},
                     {"1K", 1024},
                     {"1k", 1024},
                     {"1KB", 1024},
                     {"1KiB", 1024},
                     {"512M", uint64_t{512} << 20},
                     {"500G", uint64_t{500} << 30},
                     {"1.5T", uint64_t{3} << 39},
                     {"0.5K", 512},
                     {"2.25MiB", (2 << 20) + (1 << 18)},
                     {"0.0001K", 0},
                     {"18446744073709551615", std::numeric_limits<uint64_t>::max()},
                     {"16777215T", (uint64_t{16777215} << 40)}};
  for (const auto& c : cases) {
    CAPTURE(std::string(c.text));
    const auto bytes = parse_bytes(c.text);
    REQUIRE(bytes);
    CHECK(*bytes == c.bytes);
  }
}

TEST_CASE("parse_bytes refuses what is not a size, and names it") {
  for (const std::string text : {"",    " ",    "12Q",  "-5",  "+5",  "120%",  "1e9", "1E9", "0x10", "1 G",  " 1G",
                                 "1G ", "G",    "iB",   "1iB", "1Ki", "1KiBx", "1GG", "1.",  ".5G",  "1.G",  "1..5G",
                                 "1.5", "1.5B", "1,5G", "nan", "inf", "1P",    "1BB", "--1", "１G",  "1Gb/s"}) {
    CAPTURE(text);
    const auto bytes = parse_bytes(text);
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code == Code::kInvalid);
    CHECK(bytes.error().message.find(text) != std::string::npos);
  }
  CHECK_FALSE(parse_bytes(std::string_view("1\0G", 3)));
}

TEST_CASE("parse_bytes refuses more than 64 bits") {
  for (const std::string text :
       {"18446744073709551616", "99999999999999999999999", "16777216T", "18014398509481984K"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text));
  }
}

TEST_CASE("a share applies to a whole, a size does not") {
  const auto share = parse_size_or_percent("80%");
  REQUIRE(share);
  CHECK(share->of(1000) == 800);
  CHECK(share->of(0) == 0);
  CHECK(parse_size_or_percent("100%")->of(std::numeric_limits<uint64_t>::max()) ==
        std::numeric_limits<uint64_t>::max());
  CHECK(parse_size_or_percent("0%")->of(1000) == 0);
  CHECK(parse_size_or_percent("12.5%")->of(1000) == 125);
  const auto size = parse_size_or_percent("1K");
  REQUIRE(size);
  CHECK(size->of(5) == 1024);
  CHECK(parse_size_or_percent("0")->of(5) == 0);
}

TEST_CASE("parse_size_or_percent refuses nonsense") {
  for (const std::string text :
       {"", "%", "120%", "100.01%", "-5%", "5%%", "5 %", "1e1%", "%5", "5K%", "12Q", "99999999999999999999%"}) {
    CAPTURE(text);
    const auto result = parse_size_or_percent(text);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kInvalid);
  }
}

TEST_CASE("parse_duration takes units and plain seconds") {
  using std::chrono::milliseconds;
  struct {
    const char* text;
    milliseconds duration;
  } const cases[] = {{"0", milliseconds(0)},          {"60", std::chrono::seconds(60)},
                     {"500ms", milliseconds(500)},    {"60s", std::chrono::seconds(60)},
                     {"5m", std::chrono::minutes(5)}, {"2h", std::chrono::hours(2)},
                     {"1d", std::chrono::hours(24)},  {"1.5s", milliseconds(1500)},
                     {"0.25", milliseconds(250)},     {"inf", milliseconds::max()}};
  for (const auto& c : cases) {
    CAPTURE(std::string(c.text));
    const auto duration = parse_duration(c.text);
    REQUIRE(duration);
    CHECK(*duration == c.duration);
  }
}

TEST_CASE("parse_duration refuses nonsense and what a clock can't add") {
  for (const std::string text : {"", "s", "-1s", "5x", "5 s", "1e3", "infinite", "Inf", "5S", "5%", "1ms ", "1.s",
                                 "36501d", "18446744073709551615", "99999999999999999999s"}) {
    CAPTURE(text);
    const auto duration = parse_duration(text);
    REQUIRE_FALSE(duration);
    CHECK(duration.error().code == Code::kInvalid);
  }
  CHECK(parse_duration("36500d"));
}

TEST_CASE("format_bytes shows one decimal only where it says something") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(12 * 1024) == "12 KiB");
  CHECK(format_bytes(uint64_t{3} << 29) == "1.5 GiB");
  CHECK(format_bytes((uint64_t{1} << 20) - 1) == "1 MiB");
  CHECK(format_bytes(1023 * 1024 + 900) == "1023.9 KiB");
  CHECK(format_bytes(std::numeric_limits<uint64_t>::max()) == "16 EiB");
}

}  // namespace
}  // namespace shardfs::base
