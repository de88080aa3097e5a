#include "s3/sigv4.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

namespace shardfs::s3 {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string hex(const Digest& digest) {
  std::string out;
  out.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

Digest sha256(std::string_view text) {
  Digest out{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest out{};
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), out.data(), &length);
  return out;
}

/// Without blanks at either end, and runs of blanks as one.
std::string trimmed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

using Headers = std::vector<std::pair<std::string, std::string>>;

Headers sorted(Headers headers) {
  std::stable_sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return headers;
}

std::string names_of(const Headers& headers) {
  std::string out;
  for (const auto& [name, value] : headers) {
    if (!out.empty()) out += ';';
    out += name;
  }
  return out;
}

std::string canonical(const SignedParts& parts, const Headers& headers) {
  std::string out = fmt::format("{}\n{}\n{}\n", parts.method, parts.path, parts.query);
  for (const auto& [name, value] : headers) out += name + ':' + trimmed(value) + '\n';
  out += fmt::format("\n{}\n{}", names_of(headers), parts.payload_sha256);
  return out;
}

}  // namespace

std::string sha256_of(std::string_view text) { return hex(sha256(text)); }

std::string canonical_request(const SignedParts& parts) { return canonical(parts, sorted(parts.headers)); }

std::string authorization(const SigningScope& scope, const SignedParts& parts) {
  const Headers headers = sorted(parts.headers);
  const std::string_view day = scope.amz_date.substr(0, 8);
  const std::string place = fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", scope.amz_date, place, hex(sha256(canonical(parts, headers))));
  Digest key = hmac(fmt::format("AWS4{}", scope.secret_access_key), day);
  key = hmac(bytes_of(key), scope.region);
  key = hmac(bytes_of(key), scope.service);
  key = hmac(bytes_of(key), "aws4_request");
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", scope.access_key_id, place,
                     names_of(headers), hex(hmac(bytes_of(key), to_sign)));
}

}  // namespace shardfs::s3
