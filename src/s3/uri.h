// URIs of S3: percent-encoding, endpoints, and where a bucket's keys live under one.
// Not a general URL parser: only what an endpoint option and an object key need.
// Thread rule: pure functions and plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace shardfs::s3 {

/// Every byte but A-Z a-z 0-9 - . _ ~ (and '/' when it is kept) becomes %XX. Source: SigV4, "UriEncode".
std::string percent_encode(std::string_view bytes, bool keep_slash);

/// The reverse. A '%' that two hexadecimal digits don't follow stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);

/// Names and values raw; the result is encoded and sorted, as a URL's query and for SigV4 alike.
std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& parameters);

struct Endpoint {
  std::string scheme;     // "http" or "https"
  std::string host;       // lower case; IPv6 in brackets
  uint16_t port = 0;      // 0: the scheme's own
  std::string base_path;  // empty, or "/x" without a slash at the end
  /// "https://host:port/x".
  std::string text() const;
};

/// Errors: kInvalid (no http or https, user name or query within, bad port).
base::Result<Endpoint> parse_endpoint(std::string_view url);

/// Where one bucket's keys are.
struct Target {
  Endpoint endpoint;
  std::string bucket;
  std::string region;
  bool path_style = false;
  bool aws = false;  // the endpoint was derived from the region

  /// The Host header, as libcurl sends it.
  std::string host() const;
  /// The encoded path; an empty key is the bucket itself.
  std::string path(std::string_view key) const;
  /// scheme://host + path.
  std::string url(std::string_view encoded_path, std::string_view encoded_query) const;
};

/// endpoint_url empty: AWS in this region. Path style is forced for IP addresses, names without a dot, and buckets that
/// can't be a DNS label. Errors: kInvalid.
base::Result<Target> make_target(std::string bucket, std::string_view endpoint_url, std::string region,
                                 bool path_style);

}  // namespace shardfs::s3
