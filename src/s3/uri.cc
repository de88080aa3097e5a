#include "s3/uri.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr char kHex[] = "0123456789ABCDEF";

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_ipv4(std::string_view host) {
  return !host.empty() &&
         std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

/// An address, or a name that no bucket can stand in front of.
bool needs_path_style(std::string_view host) {
  return is_ipv4(host) || host.starts_with('[') || host.find('.') == std::string_view::npos;
}

/// May stand in front of a host under a wildcard certificate.
bool is_dns_label(std::string_view bucket) {
  return std::all_of(bucket.begin(), bucket.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

std::string aws_endpoint(std::string_view region) {
  return fmt::format("https://s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
}

}  // namespace

std::string percent_encode(std::string_view bytes, bool keep_slash) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(parameters.size());
  for (const auto& [name, value] : parameters) {
    encoded.emplace_back(percent_encode(name, false), percent_encode(value, false));
  }
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded) {
    if (!out.empty()) out += '&';
    out += name + '=' + value;
  }
  return out;
}

std::string Endpoint::text() const {
  return fmt::format("{}://{}{}{}", scheme, host, port == 0 ? "" : fmt::format(":{}", port), base_path);
}

Result<Endpoint> parse_endpoint(std::string_view url) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::kInvalid, fmt::format("endpoint '{}': {}", url, why));
  };
  Endpoint out;
  std::string_view rest;
  if (url.starts_with("http://")) {
    out.scheme = "http";
    rest = url.substr(7);
  } else if (url.starts_with("https://")) {
    out.scheme = "https";
    rest = url.substr(8);
  } else {
    return bad("must begin with http:// or https://");
  }
  // Not repeated in the message: it may hold a password.
  const auto slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) {
    return fail(Code::kInvalid, "endpoint: a user name or password in it is not supported");
  }
  if (rest.find_first_of("?# ") != std::string_view::npos) return bad("must not hold a query, fragment or space");
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  out.base_path = path;
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) return bad("bracket without an end");
    port = authority.substr(close + 1);
    authority = authority.substr(0, close + 1);
  } else if (const auto colon = authority.find(':'); colon != std::string_view::npos) {
    port = authority.substr(colon);
    authority = authority.substr(0, colon);
  }
  if (!port.empty()) {
    const auto* end = port.data() + port.size();
    const auto [stop, error] = std::from_chars(port.data() + 1, end, out.port);
    if (port[0] != ':' || error != std::errc{} || stop != end || out.port == 0) return bad("port is not a number");
  }
  if (authority.empty()) return bad("has no host");
  for (const char c : authority) out.host += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (out.port == (out.scheme == "http" ? 80 : 443)) out.port = 0;
  return out;
}

std::string Target::host() const {
  std::string out = path_style ? endpoint.host : bucket + '.' + endpoint.host;
  if (endpoint.port != 0) out += ':' + std::to_string(endpoint.port);
  return out;
}

std::string Target::path(std::string_view key) const {
  std::string out = endpoint.base_path;
  if (path_style) out += '/' + percent_encode(bucket, false);
  // The bucket itself in path style is "/bucket"; "/bucket/" would be another canonical path on some stores.
  if (!key.empty() || !path_style) out += '/' + percent_encode(key, true);
  return out;
}

std::string Target::url(std::string_view encoded_path, std::string_view encoded_query) const {
  return fmt::format("{}://{}{}{}{}", endpoint.scheme, host(), encoded_path, encoded_query.empty() ? "" : "?",
                     encoded_query);
}

Result<Target> make_target(std::string bucket, std::string_view endpoint_url, std::string region, bool path_style) {
  const bool legal = std::all_of(bucket.begin(), bucket.end(), [](char c) { return is_unreserved(c) && c != '~'; });
  if (bucket.empty() || bucket.size() > 255 || !legal || bucket == "." || bucket == "..") {
    return fail(Code::kInvalid, fmt::format("bucket '{}': not a legal name", bucket));
  }
  if (region.empty()) region = "us-east-1";
  if (!std::all_of(region.begin(), region.end(), [](char c) { return is_unreserved(c); })) {
    return fail(Code::kInvalid, fmt::format("region '{}': not a legal name", region));
  }
  const bool aws = endpoint_url.empty();
  auto endpoint = parse_endpoint(aws ? aws_endpoint(region) : std::string(endpoint_url));
  if (!endpoint) return tl::unexpected(endpoint.error());
  Target out{std::move(*endpoint), std::move(bucket), std::move(region), path_style, aws};
  if (needs_path_style(out.endpoint.host) || !is_dns_label(out.bucket)) out.path_style = true;
  return out;
}

}  // namespace shardfs::s3
