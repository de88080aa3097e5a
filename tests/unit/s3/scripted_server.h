// ScriptedServer: a raw HTTP server on 127.0.0.1 that answers each request with the bytes a test's script says, and
// then keeps, closes, resets or holds the connection. Not S3: it checks nothing.
// Thread rule: thread-safe. It owns its threads and sockets; the destructor ends all connections.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace shardfs::s3::test {

struct SeenRequest {
  std::string head;  // as it came, up to the empty line
  std::string body;  // of Content-Length
  std::string method() const { return head.substr(0, head.find(' ')); }
  /// The request target.
  std::string target() const;
  /// Value of a header; empty when it is absent.
  std::string header(std::string_view name) const;
};

struct Answer {
  std::string bytes;
  enum class Then {
    kKeep,   // wait for the next request on this connection
    kClose,  // orderly
    kReset,  // RST, once the client has the bytes
    kHold,   // no further byte until the client leaves, or release()
  } then = Then::kKeep;
  std::string after_hold;  // sent once the hold is released
};

class ScriptedServer {
 public:
  /// index: of the request, over all connections, from 0.
  using Script = std::function<Answer(size_t index, const SeenRequest& request)>;
  explicit ScriptedServer(Script script);
  ~ScriptedServer();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  uint16_t port() const { return port_; }
  std::vector<SeenRequest> requests() const;
  /// Blocks until that many requests have come.
  void wait_for_requests(size_t count) const;
  /// Lets all held answers go on, and those to come.
  void release();
  /// Connections accepted.
  size_t connections() const;

 private:
  void accept_all();
  void serve(int fd);

  const Script script_;
  base::UniqueFd listener_;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable change_;
  std::vector<SeenRequest> requests_;
  std::vector<std::thread> threads_;
  std::vector<int> open_;  // sockets being served
  size_t connections_ = 0;
  bool released_ = false;
  bool stop_ = false;
  std::thread acceptor_;
};

/// "HTTP/1.1 206 ...": a correct answer for the request's Range out of `object`.
std::string ranged_answer(const SeenRequest& request, std::string_view object, std::string_view etag = "\"v1\"");
/// Any answer with a correct Content-Length.
std::string answer(std::string_view status, std::string_view headers, std::string_view body);
std::string error_answer(std::string_view status, std::string_view code, std::string_view headers = {});

}  // namespace shardfs::s3::test
