// Channel: the bytes of one connection, plain or TLS, over a blocking socket.
// Does not own the socket. Another thread may shut it down; every call then fails soon.
// Thread rule: confined to its connection's thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

struct ssl_ctx_st;

namespace shardfs::teststore {

class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  virtual ssize_t read(std::span<char> into) = 0;  // 0 or below: no more
  /// All of it. `more`: the kernel may wait for what follows before it sends.
  virtual bool write(std::string_view bytes, bool more) = 0;
  virtual bool send_file(int file, uint64_t offset_bytes, uint64_t size_bytes) = 0;

  int fd() const { return socket_; }
  /// Waits until the peer's kernel has all that was written, a few seconds at most.
  void drain() const;
  /// The close that follows sends RST.
  void reset_on_close() const;

 private:
  int socket_;
};

std::unique_ptr<Channel> plain_channel(int socket);
/// Blocks for the handshake; null when it fails.
std::unique_ptr<Channel> tls_channel(int socket, ssl_ctx_st* context);

/// A PEM certificate, its own authority, and its key.
struct Identity {
  std::string certificate_pem;
  std::string key_pem;
};

/// For localhost, 127.0.0.1 and `address`. Errors: kInvalid.
base::Result<Identity> make_identity(const std::string& address);
/// Errors: kInvalid.
base::Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Identity& identity);

enum class Woken { kDue, kGate, kGone };
/// Blocks until the time has come, a gate opens, or the peer is gone. No time: for ever.
Woken pause(int peer, std::initializer_list<int> gates, std::optional<std::chrono::steady_clock::time_point> until);

}  // namespace shardfs::teststore
