// Signature: checks AWS Signature Version 4 in the Authorization header, as S3 does.
// Written apart from src/s3, so that a mistake there shows. Presigned URLs and chunked signatures are refused.
// Thread rule: pure functions; Credentials is a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "teststore/message.h"
#include "teststore/text.h"

namespace shardfs::teststore {

struct Secret {
  std::string secret_key;
  std::string session_token;  // empty: none may be sent
};

using Credentials = std::map<std::string, Secret, std::less<>>;  // by access key

struct SignaturePolicy {
  bool required = true;  // false: requests without Authorization pass; signed ones are checked all the same
  std::string region = "us-east-1";
};

/// The error reply that the request deserves, or nothing when its signature holds.
/// Errors: AccessDenied, AuthorizationHeaderMalformed, InvalidAccessKeyId, InvalidToken, RequestTimeTooSkewed,
/// SignatureDoesNotMatch, XAmzContentSHA256Mismatch, NotImplemented.
std::optional<Reply> check_signature(const Request& request, const Credentials& credentials,
                                     const SignaturePolicy& policy, WallTime now);

}  // namespace shardfs::teststore
