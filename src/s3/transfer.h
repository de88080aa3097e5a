// Transfer: one HTTP request on one libcurl easy handle, which is reused for the next one.
// Not a retry and no S3: it delivers a head, a body and an end to its handler.
// Thread rule: confined to its event loop. It owns the easy handle.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "s3/response_head.h"

namespace shardfs::s3 {

class EventLoop;

struct TransportOptions {
  bool verify_tls = true;
  std::string ca_file, ca_folder;  // empty: the system's
  std::string user_agent;
  long connect_timeout_ms = 5000;
  // Source: one recv takes what the socket holds; below 256 KiB the cost of system calls shows (decision 0002).
  long receive_buffer_bytes = 512 << 10;
  long idle_connections = 64;  // a loop
};

struct TransferRequest {
  bool head_only = false;
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
};

struct TransferEnd {
  enum class Kind {
    kComplete,      // the answer ended where it said it would
    kRefused,       // the handler said no
    kNoConnection,  // name not resolved, or nobody listens
    kBroken,        // reset, short, or garbage
    kTimedOut,      // no connection in time
    kNotTrusted,    // TLS verification failed
    kNotSent,       // libcurl took no such request
  } kind = Kind::kComplete;
  std::string detail;  // empty when complete
};

/// All calls on the loop's thread; none inside EventLoop::start or stop.
class TransferHandler {
 public:
  virtual ~TransferHandler() = default;
  /// There is a connection and the request goes out. May come again if a kept connection turned out to be dead.
  virtual void on_sending() noexcept = 0;
  /// Status and headers are complete. False: drop the rest, end with kRefused.
  virtual bool on_head(const ResponseHead& head) noexcept = 0;
  virtual bool on_body(std::span<const std::byte> bytes) noexcept = 0;
  virtual void on_transfer_end(TransferEnd end) noexcept = 0;
  /// A reader waits for it, by now.
  virtual bool is_urgent() const noexcept = 0;
};

class Transfer {
 public:
  /// Null when libcurl gives no handle.
  static std::unique_ptr<Transfer> make(const TransportOptions& options);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// False: out of memory or no such URL.
  bool prepare(const TransferRequest& request, TransferHandler& handler, EventLoop& loop);
  /// curl_code: a CURLcode.
  TransferEnd end_of(int curl_code) const;
  TransferHandler& handler() const { return *handler_; }
  void* easy() const { return easy_; }
  static Transfer* of_easy(void* easy);

 private:
  struct Callbacks;  // libcurl's, in the source
  Transfer() = default;
  bool set_up(const TransportOptions& options);

  void* easy_ = nullptr;
  void* header_list_ = nullptr;  // curl_slist
  TransferHandler* handler_ = nullptr;
  EventLoop* loop_ = nullptr;
  ResponseHead head_;
  bool refused_ = false;
  bool trailers_ = false;      // the head is complete; what comes now are trailers
  char error_text_[256] = {};  // CURL_ERROR_SIZE
};

}  // namespace shardfs::s3
