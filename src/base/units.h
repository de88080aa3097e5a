// Sizes, shares and times as people write them. K, M, G, T are powers of 1024.
// Thread rule: pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::base {

/// Bytes from "512M", "500G", "1.5T", "4096", with an optional "B" or "iB". Errors: kInvalid.
Result<uint64_t> parse_bytes(std::string_view text);

/// A size in bytes or a share of something.
struct SizeOrPercent {
  uint64_t bytes = 0;
  double percent = -1;  // below 0: bytes is meant; else 0..100
  uint64_t of(uint64_t whole_bytes) const;
};

/// "80%" or what parse_bytes takes. Errors: kInvalid.
Result<SizeOrPercent> parse_size_or_percent(std::string_view text);

/// "500ms", "60s", "5m", "2h", "1d", "60" (seconds), "inf" (duration::max). Errors: kInvalid.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// "1.5 GiB", "12 KiB", "17 B".
std::string format_bytes(uint64_t bytes);

}  // namespace shardfs::base
