#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace shardfs::base {
namespace {

// A decimal number without sign or exponent, and what stands behind it.
struct Quantity {
  uint64_t whole = 0;
  double fraction = 0;  // 0 <= fraction < 1
  bool has_fraction = false;
  std::string_view unit;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Quantity> split(std::string_view text) {
  Quantity quantity;
  const char* const end = text.data() + text.size();
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  auto [rest, error] = std::from_chars(text.data(), end, quantity.whole);
  if (error != std::errc()) return std::nullopt;
  if (rest != end && *rest == '.') {
    double scale = 0.1;
    const char* digit = rest + 1;
    for (; digit != end && is_digit(*digit); ++digit, scale /= 10) quantity.fraction += (*digit - '0') * scale;
    if (digit == rest + 1) return std::nullopt;
    quantity.has_fraction = true;
    rest = digit;
  }
  quantity.unit = {rest, static_cast<size_t>(end - rest)};
  return quantity;
}

// Nothing when the product is above limit.
std::optional<uint64_t> times(const Quantity& quantity, uint64_t unit, uint64_t limit) {
  uint64_t value = 0;
  if (__builtin_mul_overflow(quantity.whole, unit, &value)) return std::nullopt;
  const auto more = static_cast<uint64_t>(quantity.fraction * static_cast<double>(unit));
  if (__builtin_add_overflow(value, more, &value) || value > limit) return std::nullopt;
  return value;
}

std::optional<uint64_t> size_unit(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 1;
  const std::string_view tail = unit.substr(1);
  if (!tail.empty() && tail != "B" && tail != "b" && tail != "iB" && tail != "ib") return std::nullopt;
  switch (unit.front()) {
    case 'K':
    case 'k': return uint64_t{1} << 10;
    case 'M':
    case 'm': return uint64_t{1} << 20;
    case 'G':
    case 'g': return uint64_t{1} << 30;
    case 'T':
    case 't': return uint64_t{1} << 40;
    default: return std::nullopt;
  }
}

std::optional<uint64_t> duration_unit_ms(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit.empty() || unit == "s") return 1000;
  if (unit == "m") return 60 * 1000;
  if (unit == "h") return 3600 * 1000;
  if (unit == "d") return 24 * 3600 * 1000;
  return std::nullopt;
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  const auto quantity = split(text);
  const auto unit = quantity ? size_unit(quantity->unit) : std::nullopt;
  if (!unit || (quantity->has_fraction && *unit == 1)) {
    return fail(Code::kInvalid, fmt::format("\"{}\" is not a size such as 4096, 512M or 1.5T", text));
  }
  const auto bytes = times(*quantity, *unit, std::numeric_limits<uint64_t>::max());
  if (!bytes) return fail(Code::kInvalid, fmt::format("\"{}\" is more bytes than 64 bits can count", text));
  return *bytes;
}

uint64_t SizeOrPercent::of(uint64_t whole_bytes) const {
  if (percent < 0) return bytes;
  if (percent >= 100) return whole_bytes;
  return static_cast<uint64_t>(static_cast<long double>(whole_bytes) * percent / 100);
}

Result<SizeOrPercent> parse_size_or_percent(std::string_view text) {
  SizeOrPercent result;
  if (!text.ends_with('%')) {
    auto bytes = parse_bytes(text);
    if (!bytes) return tl::unexpected(bytes.error());
    result.bytes = *bytes;
    return result;
  }
  const auto quantity = split(text);
  if (!quantity || quantity->unit != "%" || static_cast<double>(quantity->whole) + quantity->fraction > 100) {
    return fail(Code::kInvalid, fmt::format("\"{}\" is not a share from 0% to 100%", text));
  }
  result.percent = static_cast<double>(quantity->whole) + quantity->fraction;
  return result;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  // Longer than this is "inf": a steady clock counts nanoseconds in 63 bits, 292 years, and callers add to it.
  constexpr uint64_t kLongestMs = uint64_t{100} * 365 * 24 * 3600 * 1000;
  if (text == "inf") return std::chrono::milliseconds::max();
  const auto quantity = split(text);
  const auto unit = quantity ? duration_unit_ms(quantity->unit) : std::nullopt;
  if (!unit)
    return fail(Code::kInvalid, fmt::format("\"{}\" is not a time such as 500ms, 60s, 5m, 2h, 1d or inf", text));
  const auto ms = times(*quantity, *unit, kLongestMs);
  if (!ms) return fail(Code::kInvalid, fmt::format("\"{}\" is more than 100 years; write inf", text));
  return std::chrono::milliseconds(*ms);
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 would be shown as 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, kUnits[unit]);
}

}  // namespace shardfs::base
