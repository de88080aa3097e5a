// The three ways in which S3 writes a time.
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace shardfs::s3 {

/// "2009-10-12T17:50:30.000Z" of a listing. Cut to whole seconds, since Last-Modified headers have no more.
std::optional<base::WallTime> parse_iso_time(std::string_view text);

/// "Mon, 12 Oct 2009 17:50:30 GMT" of a header.
std::optional<base::WallTime> parse_http_time(const std::string& text);

/// "20091012T175030Z" of a signature.
std::string format_amz_date(base::WallTime time);

}  // namespace shardfs::s3
