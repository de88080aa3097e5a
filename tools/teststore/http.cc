#include "teststore/http.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>

namespace shardfs::teststore {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr uint64_t kBodyLimitBytes = 4ULL << 30;
constexpr uint32_t kHeaderLimitBytes = 64 << 10;
constexpr size_t kReadBytes = 64 << 10;

std::string text(beast::string_view view) { return std::string(view.data(), view.size()); }

}  // namespace

RequestReader::Outcome RequestReader::read(Request& request, bool& keep_alive) {
  http::request_parser<http::string_body> parser;
  parser.body_limit(kBodyLimitBytes);
  parser.header_limit(kHeaderLimitBytes);
  parser.eager(true);
  bool continued = false;
  while (!parser.is_done()) {
    size_t used = 0;
    if (begin_ < buffer_.size()) {
      beast::error_code error;
      used = parser.put(boost::asio::buffer(buffer_.data() + begin_, buffer_.size() - begin_), error);
      begin_ += used;
      if (error && error != http::error::need_more) return Outcome::kMalformed;
      if (!continued && parser.is_header_done()) {
        continued = true;
        if (parser.get().find(http::field::expect) != parser.get().end() && !parser.is_done() &&
            !channel_.write("HTTP/1.1 100 Continue\r\n\r\n", false)) {
          return Outcome::kEnd;
        }
      }
    }
    if (parser.is_done() || (used > 0 && begin_ < buffer_.size())) continue;
    buffer_.erase(0, begin_);
    begin_ = 0;
    const size_t held = buffer_.size();
    buffer_.resize(held + kReadBytes);
    const ssize_t n = channel_.read(std::span(buffer_).subspan(held));
    buffer_.resize(held + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n <= 0) return Outcome::kEnd;
  }
  auto message = parser.release();
  keep_alive = message.keep_alive();
  request.method = text(message.method_string());
  const std::string target = text(message.target());
  const size_t question = std::min(target.find('?'), target.size());
  request.raw_path = target.substr(0, question);
  request.raw_query = target.substr(std::min(question + 1, target.size()));
  for (const auto& field : message) request.headers.emplace_back(text(field.name_string()), text(field.value()));
  request.body = std::move(message.body());
  return Outcome::kRequest;
}

std::string head_text(unsigned status, const Headers& headers) {
  http::response<http::empty_body> message;
  message.version(11);
  message.result(status);
  for (const auto& [name, value] : headers) message.insert(name, value);
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);
  std::string head;
  beast::error_code error;
  while (!error && !serializer.is_header_done()) {
    serializer.next(error, [&](beast::error_code&, const auto& buffers) {
      size_t size = 0;
      for (const auto buffer : beast::buffers_range_ref(buffers)) {
        head.append(static_cast<const char*>(buffer.data()), buffer.size());
        size += buffer.size();
      }
      serializer.consume(size);
    });
  }
  return head;
}

}  // namespace shardfs::teststore
