#include "teststore/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cctype>
#include <ctime>

namespace shardfs::teststore {
namespace {

constexpr char kUpperHex[] = "0123456789ABCDEF";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

void append_percent(std::string& out, unsigned char c) {
  out += '%';
  out += kUpperHex[c >> 4];
  out += kUpperHex[c & 15];
}

std::string digest(const EVP_MD* kind, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &size, kind, nullptr);
  out.resize(size);
  return out;
}

std::string format_time(WallTime time, const char* format) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  struct tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &parts));
}

}  // namespace

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string percent_encode(std::string_view bytes, bool keep_slash) {
  std::string out;
  for (const char c : bytes) {
    if (is_unreserved(static_cast<unsigned char>(c)) || (keep_slash && c == '/')) {
      out += c;
    } else {
      append_percent(out, static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string listing_encode(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (is_unreserved(static_cast<unsigned char>(c)) || c == '/' || c == '*') {
      out += c;
    } else if (c == ' ') {
      out += '+';
    } else {
      append_percent(out, static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string xml_escape(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (u < 0x20 || u == 0x7f) {
      out += "&#x";
      if (u >= 16) out += kUpperHex[u >> 4];
      out += kUpperHex[u & 15];
      out += ';';
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    pairs.emplace_back(percent_decode(one.substr(0, equals), true),
                       percent_decode(one.substr(std::min(equals + 1, one.size())), true));
  }
  return pairs;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string md5(std::string_view bytes) { return digest(EVP_md5(), bytes); }
std::string sha256(std::string_view bytes) { return digest(EVP_sha256(), bytes); }

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
       bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &size);
  out.resize(size);
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.empty()) return std::string();
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  out.resize(static_cast<size_t>(size) - padding);
  return out;
}

std::string http_date(WallTime time) { return format_time(time, "%a, %d %b %Y %H:%M:%S GMT"); }
std::string iso_time(WallTime time) { return format_time(time, "%Y-%m-%dT%H:%M:%S.000Z"); }

std::optional<WallTime> parse_amz_date(std::string_view text) {
  const std::string copy(text);
  struct tm parts = {};
  const char* end = strptime(copy.c_str(), "%Y%m%dT%H%M%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace shardfs::teststore
