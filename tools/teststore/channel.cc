#include "teststore/channel.h"

#include <linux/sockios.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

namespace shardfs::teststore {
namespace {

class PlainChannel final : public Channel {
 public:
  using Channel::Channel;

  ssize_t read(std::span<char> into) override {
    ssize_t n;
    do {
      n = ::recv(fd(), into.data(), into.size(), 0);
    } while (n < 0 && errno == EINTR);
    return n;
  }

  bool write(std::string_view bytes, bool more) override {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | (more ? MSG_MORE : 0));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  bool send_file(int file, uint64_t offset_bytes, uint64_t size_bytes) override {
    auto offset = static_cast<off_t>(offset_bytes);
    while (size_bytes > 0) {
      const ssize_t n = ::sendfile(fd(), file, &offset, size_bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      size_bytes -= static_cast<uint64_t>(n);
    }
    return true;
  }
};

class TlsChannel final : public Channel {
 public:
  TlsChannel(int socket, SSL* ssl) : Channel(socket), ssl_(ssl) {}
  ~TlsChannel() override { SSL_free(ssl_); }

  ssize_t read(std::span<char> into) override { return SSL_read(ssl_, into.data(), static_cast<int>(into.size())); }

  bool write(std::string_view bytes, bool) override {
    size_t written = 0;
    return bytes.empty() || SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written) == 1;
  }

  bool send_file(int file, uint64_t offset_bytes, uint64_t size_bytes) override {
    buffer_.resize(256 << 10);
    while (size_bytes > 0) {
      const ssize_t n = ::pread(file, buffer_.data(), std::min<uint64_t>(buffer_.size(), size_bytes),
                                static_cast<off_t>(offset_bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || !write({buffer_.data(), static_cast<size_t>(n)}, false)) return false;
      offset_bytes += static_cast<uint64_t>(n);
      size_bytes -= static_cast<uint64_t>(n);
    }
    return true;
  }

 private:
  SSL* ssl_;
  std::vector<char> buffer_;
};

}  // namespace

void Channel::drain() const {
  for (int tries = 0; tries < 5000; ++tries) {
    int unsent = 0;
    if (::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Channel::reset_on_close() const {
  const struct linger linger = {1, 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

std::unique_ptr<Channel> plain_channel(int socket) { return std::make_unique<PlainChannel>(socket); }

std::unique_ptr<Channel> tls_channel(int socket, ssl_ctx_st* context) {
  SSL* ssl = SSL_new(context);
  if (ssl == nullptr) return nullptr;
  SSL_set_fd(ssl, socket);
  auto channel = std::make_unique<TlsChannel>(socket, ssl);
  if (SSL_accept(ssl) != 1) return nullptr;
  return channel;
}

Woken pause(int peer, std::initializer_list<int> gates, std::optional<std::chrono::steady_clock::time_point> until) {
  std::array<struct pollfd, 8> polled = {};
  size_t count = 0;
  polled[count++] = {peer, POLLRDHUP, 0};
  for (const int gate : gates) polled[count++] = {gate, POLLIN, 0};
  while (true) {
    struct timespec left = {};
    if (until) {
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(*until - std::chrono::steady_clock::now());
      if (ns.count() > 0) left = {ns.count() / 1000000000, ns.count() % 1000000000};
    }
    const int ready = ::ppoll(polled.data(), count, until ? &left : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) return Woken::kGone;
    if (ready == 0 && until && *until <= std::chrono::steady_clock::now()) return Woken::kDue;
    if (ready <= 0) continue;
    for (size_t i = 1; i < count; ++i) {
      if (polled[i].revents != 0) return Woken::kGate;
    }
    return Woken::kGone;
  }
}

}  // namespace shardfs::teststore
