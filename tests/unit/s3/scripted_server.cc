#include "scripted_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

namespace shardfs::s3::test {
namespace {

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// A reset throws away what the peer has not acknowledged yet.
void wait_until_delivered(int fd) {
  for (int unsent = 1; unsent > 0 && ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0;) std::this_thread::yield();
}

}  // namespace

std::string SeenRequest::target() const {
  const auto first = head.find(' ');
  return head.substr(first + 1, head.find(' ', first + 1) - first - 1);
}

std::string SeenRequest::header(std::string_view name) const {
  for (size_t at = head.find("\r\n"); at != std::string::npos && at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
    const std::string line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() > name.size() && line[name.size()] == ':' &&
        strncasecmp(line.data(), name.data(), name.size()) == 0) {
      return line.substr(std::min(line.size(), name.size() + 2));
    }
  }
  return {};
}

ScriptedServer::ScriptedServer(Script script)
    : script_(std::move(script)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_.get(), 64) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  change_.notify_all();
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
}

void ScriptedServer::accept_all() {
  for (;;) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stop_ || fd < 0) {
      if (fd >= 0) close(fd);
      return;
    }
    ++connections_;
    open_.push_back(fd);
    threads_.emplace_back([this, fd] {
      serve(fd);
      {
        const std::lock_guard guard(mutex_);
        open_.erase(std::find(open_.begin(), open_.end(), fd));
      }
      close(fd);
    });
  }
}

void ScriptedServer::serve(int fd) {
  std::string buffer;
  for (;;) {
    size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      char piece[4096];
      const ssize_t got = recv(fd, piece, sizeof piece, 0);
      if (got <= 0) return;
      buffer.append(piece, static_cast<size_t>(got));
    }
    SeenRequest request{buffer.substr(0, end + 4), {}};
    buffer.erase(0, end + 4);
    const size_t length = std::strtoul(request.header("content-length").c_str(), nullptr, 10);
    while (buffer.size() < length) {
      char piece[4096];
      const ssize_t got = recv(fd, piece, sizeof piece, 0);
      if (got <= 0) return;
      buffer.append(piece, static_cast<size_t>(got));
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = requests_.size();
      requests_.push_back(request);
    }
    change_.notify_all();
    const Answer answer = script_(index, request);
    if (!send_all(fd, answer.bytes)) return;
    switch (answer.then) {
      case Answer::Then::kKeep: break;
      case Answer::Then::kClose: return;
      case Answer::Then::kReset: {
        wait_until_delivered(fd);
        const linger now{1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        return;
      }
      case Answer::Then::kHold: {
        std::unique_lock lock(mutex_);
        change_.wait(lock, [&] { return released_ || stop_; });
        lock.unlock();
        if (!send_all(fd, answer.after_hold)) return;
        break;
      }
    }
  }
}

std::vector<SeenRequest> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::wait_for_requests(size_t count) const {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return requests_.size() >= count; });
}

void ScriptedServer::release() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  change_.notify_all();
}

size_t ScriptedServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

std::string answer(std::string_view status, std::string_view headers, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), headers, body);
}

std::string error_answer(std::string_view status, std::string_view code, std::string_view headers) {
  return answer(status, fmt::format("Content-Type: application/xml\r\n{}", headers),
                fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>because</Message></Error>", code));
}

std::string ranged_answer(const SeenRequest& request, std::string_view object, std::string_view etag) {
  unsigned long long first = 0, last = 0;
  if (std::sscanf(request.header("range").c_str(), "bytes=%llu-%llu", &first, &last) != 2) std::abort();
  const auto body = object.substr(first, last - first + 1);
  return answer("206 Partial Content",
                fmt::format("Content-Range: bytes {}-{}/{}\r\nETag: {}\r\nLast-Modified: Mon, 12 Oct 2009 17:50:30 "
                            "GMT\r\n",
                            first, first + body.size() - 1, object.size(), etag),
                body);
}

}  // namespace shardfs::s3::test
