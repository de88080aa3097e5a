#include "raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdlib>

namespace shardfs::teststore {

RawClient::RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const struct timeval patience = {60, 0};  // a test that would hang fails instead
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket_.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address) != 0) socket_.reset();
}

void RawClient::send(std::string_view method_and_target, std::string_view extra_headers, std::string_view body) {
  std::string text = std::string(method_and_target) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + std::string(extra_headers);
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n" + std::string(body);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

bool RawClient::fill() {
  char piece[65536];
  const ssize_t n = ::recv(socket_.get(), piece, sizeof piece, 0);
  if (n <= 0) {
    end_ = n < 0 && errno == ECONNRESET ? RawReply::End::kReset : RawReply::End::kClosed;
    return false;
  }
  buffer_.append(piece, static_cast<size_t>(n));
  return true;
}

std::string RawClient::receive_head() {
  size_t end;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  std::string head = buffer_.substr(0, end + 4);
  buffer_.erase(0, end + 4);
  return head;
}

std::string RawClient::receive_bytes(size_t count) {
  while (buffer_.size() < count && fill()) {
  }
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, bytes.size());
  return bytes;
}

RawReply RawClient::receive(bool with_body) {
  RawReply reply;
  const std::string head = receive_head();
  if (head.empty()) {
    reply.end = end_;
    return reply;
  }
  reply.status = static_cast<unsigned>(std::atoi(head.substr(9, 3).c_str()));
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at);
    const size_t colon = head.find(": ", at);
    if (colon < end) reply.headers[head.substr(at, colon - at)] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  const auto length = reply.headers.contains("Content-Length") ? reply.headers["Content-Length"] : "0";
  const size_t size = with_body ? std::strtoull(length.c_str(), nullptr, 10) : 0;
  reply.body = receive_bytes(size);
  if (reply.body.size() < size) reply.end = end_;
  return reply;
}

RawReply RawClient::ask(std::string_view method_and_target, std::string_view extra_headers, std::string_view body) {
  send(method_and_target, extra_headers, body);
  return receive(!method_and_target.starts_with("HEAD"));
}

std::vector<std::string> elements(std::string_view xml, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">";
  const std::string close = "</" + std::string(name) + ">";
  std::vector<std::string> found;
  for (size_t at = 0; (at = xml.find(open, at)) != std::string_view::npos;) {
    at += open.size();
    std::string text(xml.substr(at, xml.find(close, at) - at));
    for (const auto& [escaped, plain] :
         {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#x1;", "\x01"}, {"&amp;", "&"}}) {
      for (size_t i = 0; (i = text.find(escaped, i)) != std::string::npos; ++i) {
        text.replace(i, std::string_view(escaped).size(), plain);
      }
    }
    found.push_back(std::move(text));
  }
  return found;
}

}  // namespace shardfs::teststore
