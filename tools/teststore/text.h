// Small transformations between bytes and the texts of HTTP and S3: percent and XML encoding, dates, digests, base64.
// Not for shardfs itself: src/s3 has its own, so that the two sides check each other.
// Thread rule: pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardfs::teststore {

using WallTime = std::chrono::system_clock::time_point;

/// Decodes %XX once; a "%" without two hex digits stays. plus_is_space: as in query strings.
std::string percent_decode(std::string_view text, bool plus_is_space = false);
/// Encodes every byte but A-Z a-z 0-9 - . _ ~ and, if asked, "/".
std::string percent_encode(std::string_view bytes, bool keep_slash);
/// As S3 does in listings with encoding-type=url: "/" stays, a space becomes "+", "+" becomes %2B.
std::string listing_encode(std::string_view bytes);
/// XML text; control characters become references, as S3 sends them, although XML 1.0 forbids most.
std::string xml_escape(std::string_view bytes);

/// Names and values of a query string, decoded, in its order; a name without "=" has an empty value.
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query);

std::string hex(std::string_view bytes);
std::string md5(std::string_view bytes);     // 16 bytes
std::string sha256(std::string_view bytes);  // 32 bytes
std::string hmac_sha256(std::string_view key, std::string_view bytes);

std::string base64_encode(std::string_view bytes);
std::optional<std::string> base64_decode(std::string_view text);

std::string http_date(WallTime time);                           // Sun, 06 Nov 1994 08:49:37 GMT
std::string iso_time(WallTime time);                            // 1994-11-06T08:49:37.000Z
std::optional<WallTime> parse_amz_date(std::string_view text);  // 19941106T084937Z

std::string lower(std::string_view text);

}  // namespace shardfs::teststore
