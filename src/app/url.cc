#include "app/url.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardfs::app {
namespace {

using base::Code;

// The names that S3 and its relatives allow, old ones of AWS with capitals and underscores included.
bool is_bucket_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_letter_or_digit(char c) { return is_bucket_character(c) && c != '-' && c != '.' && c != '_'; }

base::Result<SourceUrl> refuse(std::string_view text, std::string_view why) {
  return base::fail(Code::kInvalid,
                    fmt::format("\"{}\" {}: it should look like s3://BUCKET or s3://BUCKET/PREFIX", text, why));
}

}  // namespace

std::string SourceUrl::text() const {
  const std::string_view shown = prefix;
  return fmt::format("s3://{}{}{}", bucket, shown.empty() ? "" : "/",
                     shown.substr(0, shown.size() - (shown.empty() ? 0 : 1)));
}

base::Result<SourceUrl> parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "s3://";
  if (!text.starts_with(kScheme)) return refuse(text, "is not an S3 address");
  const std::string_view rest = text.substr(kScheme.size());
  const size_t slash = rest.find('/');
  SourceUrl url;
  url.bucket = rest.substr(0, slash);
  if (url.bucket.empty()) return refuse(text, "names no bucket");
  // Source: the S3 user guide, "General purpose bucket naming rules" (3 to 63), and 255 of before 2018.
  if (url.bucket.size() < 3 || url.bucket.size() > 255)
    return refuse(text, "has a bucket name that is too short or too long");
  if (!std::all_of(url.bucket.begin(), url.bucket.end(), is_bucket_character) ||
      !is_letter_or_digit(url.bucket.front())) {
    return refuse(text, "has a bucket name with characters that no bucket has");
  }
  if (slash == std::string_view::npos) return url;
  std::string_view prefix = rest.substr(slash + 1);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.empty()) return url;
  if (prefix.starts_with('/') || prefix.find("//") != std::string_view::npos) {
    return refuse(text, "has an empty part in its prefix");
  }
  // Source: S3 keys have at most 1,024 bytes.
  if (prefix.size() > 1023) return refuse(text, "has a prefix that is longer than any key");
  url.prefix = std::string(prefix) + "/";
  return url;
}

}  // namespace shardfs::app
