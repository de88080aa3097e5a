#include "s3/error_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

using base::Code;

// Source: S3 refuses signatures that are more than 15 minutes off; below 5 a HEAD's 403 has another reason.
constexpr std::chrono::minutes kSkewSuspected{5};

template <class... Names>
bool is_one_of(std::string_view text, Names... names) {
  return ((text == names) || ...);
}

bool refuses_keys(std::string_view code) {
  return is_one_of(code, "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken",
                   "TokenRefreshRequired", "InvalidClientTokenId",
                   "XAdminUserNotFound");  // versitygw, with 404: not to be taken for a missing object
}

bool asks_to_slow_down(std::string_view code) {
  return is_one_of(code, "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests",
                   "RequestThrottled", "BandwidthLimitExceeded");
}

std::optional<std::chrono::milliseconds> retry_after(const ResponseHead& head, base::WallTime now) {
  const auto& text = head.header("retry-after");
  if (text.empty()) return std::nullopt;
  unsigned seconds = 0;
  const char* end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, seconds); error == std::errc{} && stop == end) {
    return std::chrono::seconds(std::min(seconds, 86400u));
  }
  const auto date = parse_http_time(text);
  if (!date) return std::nullopt;
  return std::max(std::chrono::milliseconds(0), std::chrono::duration_cast<std::chrono::milliseconds>(*date - now));
}

bool clock_is_off(const ResponseHead& head, base::WallTime now) {
  const auto date = parse_http_time(head.header("date"));
  return date && std::chrono::abs(*date - now) > kSkewSuspected;
}

/// Where the bucket is, if the answer says another place than the request was signed for.
std::string other_region(const ResponseHead& head, const S3Error& error, std::string_view region) {
  const std::string& named = head.has("x-amz-bucket-region") ? head.header("x-amz-bucket-region") : error.region;
  return named == region ? std::string() : named;
}

}  // namespace

std::string_view name_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kGet: return "get";
    case RequestKind::kHead: return "head";
    case RequestKind::kList: return "list";
  }
  return "";
}

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 300;
  std::string out;
  for (const char c : text.substr(0, kLimit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kLimit) out += "...";
  return out;
}

S3Error parse_error_body(std::string_view body) {
  pugi::xml_document document;
  if (!document.load_buffer(body.data(), body.size())) return {};
  auto root = document.child("Error");
  if (!root) root = document.child("ErrorResponse").child("Error");
  return {root.child_value("Code"), root.child_value("Message"), root.child_value("Region")};
}

Verdict judge_answer(const ResponseHead& head, std::string_view body, const AnswerContext& context) {
  const int status = head.status();
  const S3Error error = parse_error_body(body);
  const std::string& code = error.code;
  Verdict out;
  out.detail = fmt::format("{}{}{}{}{}", status, code.empty() ? "" : " ", printable(code),
                           error.message.empty() ? "" : ": ", printable(error.message));
  const auto decide = [&](Code decided, Remedy remedy = Remedy::kNone) {
    out.code = decided;
    out.remedy = remedy;
    return out;
  };

  if (const auto region = other_region(head, error, context.region);
      !region.empty() &&
      (status == 301 || status == 307 || status == 308 || status == 400 || code == "AuthorizationHeaderMalformed")) {
    out.region = region;
    out.detail = fmt::format("the bucket is in region {}, not {}: set the region to {} ({})", printable(region),
                             context.region, printable(region), out.detail);
    return decide(Code::kInvalid, Remedy::kSwitchRegion);
  }
  if (status >= 300 && status < 400) {
    const auto& location = head.header("location");
    out.detail += fmt::format("; redirected{}{}: wrong endpoint or region?", location.empty() ? "" : " to ",
                              printable(location.substr(0, location.find('?'))));
    return decide(Code::kInvalid);
  }
  if (asks_to_slow_down(code) || status == 429 || status == 503 || status == 509) {
    out.retry_after = retry_after(head, context.now);
    return decide(Code::kTransient, Remedy::kRetrySlower);
  }
  if (code == "RequestTimeout") return decide(Code::kTransient, Remedy::kRetry);
  if (code == "RequestTimeTooSkewed") return decide(Code::kPermission, Remedy::kFixClock);
  if (context.is_signed && refuses_keys(code)) return decide(Code::kPermission, Remedy::kRenewCredentials);
  // The secret of a key may have been changed under its name.
  if (context.is_signed && code == "SignatureDoesNotMatch") return decide(Code::kPermission, Remedy::kRenewIfDiffer);

  switch (status) {
    case 400:
      if (context.kind == RequestKind::kHead && context.is_signed)
        return decide(Code::kPermission, Remedy::kRenewIfDiffer);
      if (context.sent_if_match) return decide(Code::kInvalid, Remedy::kWithoutIfMatch);
      if (context.kind == RequestKind::kList &&
          is_one_of(code, "InvalidArgument", "NotImplemented", "InvalidRequest")) {
        return decide(Code::kInvalid, Remedy::kListVersion1);
      }
      return decide(Code::kInvalid);
    case 401: return decide(Code::kPermission);
    case 403:
      if (context.is_signed && code.empty() && clock_is_off(head, context.now)) {
        return decide(Code::kPermission, Remedy::kFixClock);
      }
      if (context.kind == RequestKind::kHead && context.is_signed)
        return decide(Code::kPermission, Remedy::kRenewIfDiffer);
      if (code == "InvalidObjectState") out.detail += " (archived: it must be restored first)";
      return decide(Code::kPermission);
    case 404:
    case 410: return decide(Code::kNotFound);
    case 405:
      // HEAD of a version that is a delete marker.
      return decide(head.header("x-amz-delete-marker") == "true" ? Code::kNotFound : Code::kUnsupported);
    case 408:
    case 409:
    case 425: return decide(Code::kTransient, Remedy::kRetry);
    case 412: return decide(Code::kChanged, context.sent_if_match ? Remedy::kWithoutIfMatch : Remedy::kNone);
    case 416: return decide(Code::kInvalid);
    case 501:
      if (context.sent_if_match) return decide(Code::kUnsupported, Remedy::kWithoutIfMatch);
      if (context.kind == RequestKind::kList) return decide(Code::kUnsupported, Remedy::kListVersion1);
      return decide(Code::kUnsupported);
    case 505: return decide(Code::kUnsupported);
    default: break;
  }
  if (status >= 500) {
    out.retry_after = retry_after(head, context.now);
    return decide(Code::kTransient, Remedy::kRetry);
  }
  if (status >= 400) return decide(Code::kInvalid);
  // 1xx, 204, 0: no answer to such a request.
  return decide(Code::kIntegrity, Remedy::kRefetch);
}

}  // namespace shardfs::s3
