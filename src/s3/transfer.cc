#include "s3/transfer.h"

#include <curl/curl.h>

#include "s3/event_loop.h"

namespace shardfs::s3 {

struct Transfer::Callbacks {
  static size_t header(char* data, size_t size, size_t count, void* user) noexcept {
    auto& self = *static_cast<Transfer*>(user);
    const std::string_view line(data, size * count);
    if (line.starts_with("HTTP/")) self.trailers_ = false;
    if (self.trailers_) return line.size();
    self.head_.add_line(line);
    if (line == "\r\n" || line == "\n") {
      const int status = self.head_.status();
      if (status >= 100 && status < 200) return line.size();  // an interim answer
      self.trailers_ = true;
      self.refused_ = !self.handler_->on_head(self.head_);
    }
    return self.refused_ ? 0 : line.size();
  }

  static size_t body(char* data, size_t size, size_t count, void* user) noexcept {
    auto& self = *static_cast<Transfer*>(user);
    const size_t length = size * count;
    if (!self.refused_ && !self.loop_->may_take(self, length)) return CURL_WRITEFUNC_PAUSE;
    if (!self.refused_) self.refused_ = !self.handler_->on_body(std::as_bytes(std::span(data, length)));
    // Anything but the length ends the transfer; 0 would be no error for an empty piece.
    return self.refused_ ? length + 1 : length;
  }

  static int sending(void* user, char*, char*, int, int) noexcept {
    static_cast<Transfer*>(user)->handler_->on_sending();
    return CURL_PREREQFUNC_OK;
  }
};

std::unique_ptr<Transfer> Transfer::make(const TransportOptions& options) {
  static_assert(sizeof error_text_ >= CURL_ERROR_SIZE);
  std::unique_ptr<Transfer> out(new Transfer());
  if (!out->set_up(options)) return nullptr;
  return out;
}

Transfer::~Transfer() {
  if (easy_ != nullptr) curl_easy_cleanup(static_cast<CURL*>(easy_));
  curl_slist_free_all(static_cast<curl_slist*>(header_list_));
}

bool Transfer::set_up(const TransportOptions& options) {
  CURL* easy = curl_easy_init();
  easy_ = easy;
  if (easy == nullptr) return false;
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) { ok = curl_easy_setopt(easy, option, value) == CURLE_OK && ok; };
  set(CURLOPT_PRIVATE, this);
  set(CURLOPT_ERRORBUFFER, error_text_);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});  // HTTP/2 would put all parts on one connection
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
  set(CURLOPT_QUICK_EXIT, 1L);  // else a cancel waits for a name lookup that hangs
#endif
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_HTTP_CONTENT_DECODING, 0L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_BUFFERSIZE, options.receive_buffer_bytes);
  set(CURLOPT_CONNECTTIMEOUT_MS, options.connect_timeout_ms);
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, 30L);
  set(CURLOPT_TCP_KEEPINTVL, 10L);
  set(CURLOPT_USERAGENT, options.user_agent.c_str());
  set(CURLOPT_SSL_VERIFYPEER, options.verify_tls ? 1L : 0L);
  set(CURLOPT_SSL_VERIFYHOST, options.verify_tls ? 2L : 0L);
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.ca_folder.empty()) set(CURLOPT_CAPATH, options.ca_folder.c_str());
  set(CURLOPT_HEADERFUNCTION, &Callbacks::header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &Callbacks::body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_PREREQFUNCTION, &Callbacks::sending);
  set(CURLOPT_PREREQDATA, this);
  return ok;
}

bool Transfer::prepare(const TransferRequest& request, TransferHandler& handler, EventLoop& loop) {
  handler_ = &handler;
  loop_ = &loop;
  head_.clear();
  refused_ = trailers_ = false;
  error_text_[0] = '\0';
  curl_slist_free_all(static_cast<curl_slist*>(header_list_));
  header_list_ = nullptr;
  for (const auto& header : request.headers) {
    curl_slist* longer = curl_slist_append(static_cast<curl_slist*>(header_list_), header.c_str());
    if (longer == nullptr) return false;
    header_list_ = longer;
  }
  CURL* easy = static_cast<CURL*>(easy_);
  bool ok = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, header_list_) == CURLE_OK;
  ok = curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str()) == CURLE_OK && ok;
  // NOBODY off alone would leave the method at HEAD.
  ok = curl_easy_setopt(easy, request.head_only ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1L) == CURLE_OK && ok;
  return ok;
}

Transfer* Transfer::of_easy(void* easy) {
  char* self = nullptr;
  curl_easy_getinfo(static_cast<CURL*>(easy), CURLINFO_PRIVATE, &self);
  return reinterpret_cast<Transfer*>(self);
}

TransferEnd Transfer::end_of(int curl_code) const {
  using Kind = TransferEnd::Kind;
  const auto code = static_cast<CURLcode>(curl_code);
  if (refused_) return {Kind::kRefused, {}};
  if (code == CURLE_OK) return {Kind::kComplete, {}};
  std::string detail = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: return {Kind::kNoConnection, std::move(detail)};
    case CURLE_OPERATION_TIMEDOUT: return {Kind::kTimedOut, std::move(detail)};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH: return {Kind::kNotTrusted, std::move(detail)};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      // The latter also stands for an answer that is no HTTP/1, which only a broken connection explains.
      return {code == CURLE_URL_MALFORMAT ? Kind::kNotSent : Kind::kBroken, std::move(detail)};
    default: return {Kind::kBroken, std::move(detail)};
  }
}

}  // namespace shardfs::s3
