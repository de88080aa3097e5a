// RawClient: one plain connection to a test server, for tests that look at single bytes on the wire.
// Not an HTTP library: it understands what the test server sends. Thread rule: confined to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace shardfs::teststore {

struct RawReply {
  enum class End { kWhole, kClosed, kReset };  // how the body ended
  unsigned status = 0;                         // 0: no head came
  std::map<std::string, std::string> headers;  // names as they came
  std::string body;
  End end = End::kWhole;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port);

  /// "GET /b/k", with extra header lines that end in CRLF.
  void send(std::string_view method_and_target, std::string_view extra_headers = {}, std::string_view body = {});
  /// Head and body, as Content-Length says.
  RawReply receive(bool with_body = true);
  RawReply ask(std::string_view method_and_target, std::string_view extra_headers = {}, std::string_view body = {});
  /// Only so many bytes of what comes next.
  std::string receive_bytes(size_t count);
  std::string receive_head();
  void close() { socket_.reset(); }

 private:
  bool fill();  // more into buffer_; false at the end, which is then in end_

  base::UniqueFd socket_;
  std::string buffer_;
  RawReply::End end_ = RawReply::End::kWhole;
};

/// The texts of all <NAME>...</NAME> in the document, unescaped.
std::vector<std::string> elements(std::string_view xml, std::string_view name);

}  // namespace shardfs::teststore
