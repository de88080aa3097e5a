#include "teststore/signature.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <vector>

namespace shardfs::teststore {
namespace {

// Source: "RequestTimeTooSkewed" in S3's table of error codes.
constexpr std::chrono::minutes kAllowedSkew{15};
constexpr std::string_view kScheme = "AWS4-HMAC-SHA256";

struct Authorization {
  std::string access_key, date, region, service, terminal;
  std::string scope;
  std::vector<std::string> signed_headers;
  std::string signature;
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<Authorization> parse_authorization(std::string_view text) {
  if (!text.starts_with(kScheme)) return std::nullopt;
  Authorization out;
  for (const std::string& part : split(text.substr(kScheme.size()), ',')) {
    const std::string_view field = trimmed(part);
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = field.substr(0, equals);
    const std::string_view value = field.substr(equals + 1);
    if (name == "Credential") {
      const auto parts = split(value, '/');
      if (parts.size() != 5) return std::nullopt;
      out.access_key = parts[0];
      out.date = parts[1];
      out.region = parts[2];
      out.service = parts[3];
      out.terminal = parts[4];
      out.scope = value.substr(parts[0].size() + 1);
    } else if (name == "SignedHeaders") {
      out.signed_headers = split(value, ';');
    } else if (name == "Signature") {
      out.signature = value;
    }
  }
  if (out.access_key.empty() || out.signature.empty()) return std::nullopt;
  return out;
}

std::string collapse_spaces(std::string_view value) {
  std::string out;
  for (const char c : trimmed(value)) {
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  }
  return out;
}

std::string canonical_request(const Request& request, const Authorization& authorization, std::string_view payload) {
  auto query = request.query;
  for (auto& [name, value] : query) {
    name = percent_encode(name, false);
    value = percent_encode(value, false);
  }
  std::sort(query.begin(), query.end());
  std::string text = request.method + "\n" + percent_encode(percent_decode(request.raw_path), true) + "\n";
  for (size_t i = 0; i < query.size(); ++i) {
    text += (i > 0 ? "&" : "") + query[i].first + "=" + query[i].second;
  }
  text += "\n";
  std::string names;
  for (const std::string& name : authorization.signed_headers) {
    std::string values;
    for (const auto& [header, value] : request.headers) {
      if (lower(header) == name) values += (values.empty() ? "" : ",") + collapse_spaces(value);
    }
    text += name + ":" + values + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  return text + "\n" + names + "\n" + std::string(payload);
}

std::string sign(const Authorization& authorization, std::string_view secret, std::string_view amz_date,
                 std::string_view canonical) {
  const std::string to_sign =
      std::string(kScheme) + "\n" + std::string(amz_date) + "\n" + authorization.scope + "\n" + hex(sha256(canonical));
  std::string key = hmac_sha256("AWS4" + std::string(secret), authorization.date);
  key = hmac_sha256(key, authorization.region);
  key = hmac_sha256(key, authorization.service);
  key = hmac_sha256(key, authorization.terminal);
  return hex(hmac_sha256(key, to_sign));
}

bool is_signed(const Authorization& authorization, std::string_view lower_name) {
  const auto& names = authorization.signed_headers;
  return std::find(names.begin(), names.end(), lower_name) != names.end();
}

// Session tokens: what was given with the key must come along, nothing else may.
std::optional<Reply> check_token(const Request& request, const Secret& secret) {
  if (request.header("x-amz-security-token").value_or("") == secret.session_token) return std::nullopt;
  return error_reply(400, "InvalidToken", "The provided token is malformed or otherwise invalid.");
}

std::optional<Reply> check_payload(const Request& request, std::string_view payload) {
  if (payload.starts_with("STREAMING-")) {
    return error_reply(501, "NotImplemented", "Chunked signatures are not implemented.");
  }
  if (payload == "UNSIGNED-PAYLOAD" || payload == hex(sha256(request.body))) return std::nullopt;
  return error_reply(400, "XAmzContentSHA256Mismatch",
                     "The provided 'x-amz-content-sha256' header does not match what was computed.");
}

}  // namespace

std::optional<Reply> check_signature(const Request& request, const Credentials& credentials,
                                     const SignaturePolicy& policy, WallTime now) {
  const auto header = request.header("authorization");
  if (!header) {
    if (!policy.required) return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  }
  const auto authorization = parse_authorization(*header);
  if (!authorization) {
    return error_reply(400, "AuthorizationHeaderMalformed", "The authorization header that you provided is not valid.");
  }
  const auto known = credentials.find(authorization->access_key);
  if (known == credentials.end()) {
    return error_reply(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.");
  }
  if (authorization->service != "s3" || authorization->terminal != "aws4_request" ||
      authorization->region != policy.region) {
    Reply reply = error_reply(400, "AuthorizationHeaderMalformed",
                              "The authorization header is malformed; the region '" + authorization->region +
                                  "' is wrong; expecting '" + policy.region + "'");
    const size_t at = reply.text.rfind("<RequestId>");
    reply.text.insert(at, "<Region>" + xml_escape(policy.region) + "</Region>");
    reply.set("x-amz-bucket-region", policy.region);
    return reply;
  }
  const std::string_view amz_date = request.header("x-amz-date").value_or("");
  const auto time = parse_amz_date(amz_date);
  if (!time || amz_date.substr(0, 8) != authorization->date) {
    return error_reply(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header");
  }
  if (*time > now + kAllowedSkew || *time < now - kAllowedSkew) {
    return error_reply(403, "RequestTimeTooSkewed",
                       "The difference between the request time and the current time is too large.");
  }
  if (!is_signed(*authorization, "host")) {
    return error_reply(403, "AccessDenied", "The Host header must be signed.");
  }
  for (const auto& [name, value] : request.headers) {
    if (const std::string low = lower(name); low.starts_with("x-amz-") && !is_signed(*authorization, low)) {
      return error_reply(403, "AccessDenied", "There were headers present in the request which were not signed");
    }
  }
  const auto payload = request.header("x-amz-content-sha256");
  if (!payload)
    return error_reply(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256");
  const std::string expected =
      sign(*authorization, known->second.secret_key, amz_date, canonical_request(request, *authorization, *payload));
  if (expected.size() != authorization->signature.size() ||
      CRYPTO_memcmp(expected.data(), authorization->signature.data(), expected.size()) != 0) {
    return error_reply(403, "SignatureDoesNotMatch",
                       "The request signature we calculated does not match the signature you provided.");
  }
  if (auto reply = check_token(request, known->second)) return reply;
  return check_payload(request, *payload);
}

}  // namespace shardfs::teststore
