// AWS Signature Version 4 in the Authorization header.
// Not a request builder: it signs what it is given (request_builder.h decides what that is).
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardfs::s3 {

/// SHA-256 of an empty body, in hexadecimal.
inline constexpr std::string_view kEmptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct SigningScope {
  std::string_view access_key_id;
  std::string_view secret_access_key;
  std::string_view region;
  std::string_view service = "s3";
  std::string_view amz_date;  // "20130524T000000Z"
};

struct SignedParts {
  std::string_view method;
  std::string_view path;                                     // percent-encoded once, as sent
  std::string_view query;                                    // from canonical_query
  std::vector<std::pair<std::string, std::string>> headers;  // those to sign: names in lower case, in any order
  std::string_view payload_sha256 = kEmptySha256;
};

/// In hexadecimal.
std::string sha256_of(std::string_view text);

std::string canonical_request(const SignedParts& parts);

/// The value of the Authorization header.
std::string authorization(const SigningScope& scope, const SignedParts& parts);

}  // namespace shardfs::s3
