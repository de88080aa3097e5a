// From an answer's status and S3 code to a Code, and to what may still help.
// Not the retry itself: operation.h acts on the Verdict.
// Thread rule: pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "s3/response_head.h"

namespace shardfs::s3 {

enum class RequestKind { kGet, kHead, kList };

/// "get", "head", "list": the label of metrics.
std::string_view name_of(RequestKind kind);

/// What may help. Each but the two retries is tried once a request.
enum class Remedy {
  kNone,              // final
  kRetry,             // after a wait, until the deadline
  kRetrySlower,       // so, and with fewer connections for a while
  kRefetch,           // after a wait, a few times: the answer contradicts itself
  kRenewCredentials,  // the store refuses the keys or the token
  kRenewIfDiffer,     // it may have another reason (a HEAD's 403 says none): only if other credentials are there now
  kFixClock,          // our clock is off by more than the store allows
  kSwitchRegion,      // the bucket is elsewhere
  kWithoutIfMatch,    // this store may not understand If-Match
  kListVersion1,      // this store may not know ListObjectsV2
};

struct Verdict {
  base::Code code = base::Code::kTransient;
  Remedy remedy = Remedy::kNone;
  std::string detail;              // "503 SlowDown: Please reduce ..."; no secrets
  bool broken_connection = false;  // for kRetry
  std::optional<std::chrono::milliseconds> retry_after;
  std::string region;  // for kSwitchRegion
};

struct S3Error {
  std::string code, message, region;  // empty: not said
};
/// Anything that is not an S3 error document gives an empty one.
S3Error parse_error_body(std::string_view body);

struct AnswerContext {
  RequestKind kind = RequestKind::kGet;
  bool sent_if_match = false;
  bool is_signed = false;
  std::string_view region;  // that the request was signed for
  base::WallTime now{};     // this machine's clock
};

/// Requires: the status is not one that the request takes as success.
Verdict judge_answer(const ResponseHead& head, std::string_view body, const AnswerContext& context);

/// Control bytes as \xNN, at most 300 bytes: for messages that quote keys or answers.
std::string printable(std::string_view text);

}  // namespace shardfs::s3
