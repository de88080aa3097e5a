// Request and Reply: an HTTP exchange as the rest of the server sees it, free of the HTTP library's types.
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardfs::teststore {

struct Object;

using Headers = std::vector<std::pair<std::string, std::string>>;  // in order, names as they came

enum class Kind { kGet, kHead, kList, kPut, kDelete, kOther };  // what S3 is asked for, not the HTTP method
std::string_view name_of(Kind kind);                            // "get", "head", "list", ...
std::optional<Kind> kind_named(std::string_view name);

/// The half-open range that a request asks for within the object as it is; whole object: [0, size).
struct AskedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Request {
  std::string method;
  std::string raw_path;   // as sent, still encoded
  std::string raw_query;  // as sent, without "?"
  Headers headers;
  std::string body;

  // Filled in by address_request().
  std::string bucket;
  std::string key;  // decoded once
  std::vector<std::pair<std::string, std::string>> query;
  Kind kind = Kind::kOther;

  /// The first header of that name, without regard to case.
  std::optional<std::string_view> header(std::string_view name) const;
  std::optional<std::string_view> parameter(std::string_view name) const;
  /// Of the Authorization header; empty when there is none.
  std::string_view access_key() const;
};

/// Bucket, key, query and kind from method, path and host. "BUCKET.localhost" as the host is a virtual-host request.
void address_request(Request& request);

struct Reply {
  unsigned status = 200;
  Headers headers;  // without Content-Length, which is content_length's
  std::string text;
  std::shared_ptr<const Object> object;  // when set, the body is [begin, end) of it and `text` is not used
  uint64_t begin = 0;
  uint64_t end = 0;
  std::optional<std::string> content_length;  // instead of the true one (HEAD, faults)

  uint64_t body_bytes() const { return object ? end - begin : text.size(); }
  void set(std::string_view name, std::string value);  // replaces or adds
  bool has(std::string_view name) const;
  void remove(std::string_view name);
};

/// An S3 error document.
Reply error_reply(unsigned status, std::string_view code, std::string_view message, std::string_view resource = {});

}  // namespace shardfs::teststore
