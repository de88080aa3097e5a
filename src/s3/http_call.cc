#include "s3/http_call.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr size_t kAnswerLimit = 256 << 10;  // credentials and error documents have a few KiB
// Only how soon a stop is seen where the process had no descriptor for the signal.
constexpr int kPollMs = 200;

using Easy = std::unique_ptr<CURL, void (*)(CURL*)>;
using Multi = std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)>;
using List = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

size_t take_header(char* data, size_t size, size_t count, void* user) noexcept {
  static_cast<HttpAnswer*>(user)->head.add_line({data, size * count});
  return size * count;
}

size_t take_body(char* data, size_t size, size_t count, void* user) noexcept {
  auto& body = static_cast<HttpAnswer*>(user)->body;
  if (body.size() + size * count > kAnswerLimit) return size * count + 1;  // ends the transfer
  body.append(data, size * count);
  return size * count;
}

// Nothing in a message may come from the query.
std::string place_of(const std::string& url) { return url.substr(0, url.find('?')); }

bool prepare(CURL* easy, const HttpCall& call, curl_slist* headers, HttpAnswer& answer) {
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) { ok = curl_easy_setopt(easy, option, value) == CURLE_OK && ok; };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_URL, call.url.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_USERAGENT, "shardfs/" SHARDFS_VERSION);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(call.limit.count()));
  if (call.method == "POST" || call.method == "PUT") {
    set(CURLOPT_POSTFIELDSIZE, static_cast<long>(call.body.size()));
    set(CURLOPT_POSTFIELDS, call.body.c_str());
  }
  if (call.method == "HEAD") set(CURLOPT_NOBODY, 1L);
  set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
  if (call.direct) set(CURLOPT_NOPROXY, "*");
  if (!call.ca_file.empty()) set(CURLOPT_CAINFO, call.ca_file.c_str());
  if (!call.ca_folder.empty()) set(CURLOPT_CAPATH, call.ca_folder.c_str());
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &answer);
  set(CURLOPT_WRITEFUNCTION, &take_body);
  set(CURLOPT_WRITEDATA, &answer);
#if LIBCURL_VERSION_NUM >= 0x075700
  set(CURLOPT_QUICK_EXIT, 1L);
#endif
  return ok;
}

HttpTrace::Step step_of(CURLcode result, const HttpTrace& trace, bool tls) {
  using Step = HttpTrace::Step;
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return Step::kLookup;
    case CURLE_COULDNT_CONNECT: return Step::kConnect;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION: return Step::kTls;
    default: break;
  }
  if (trace.lookup.count() == 0) return Step::kLookup;
  if (trace.connect.count() == 0) return Step::kConnect;
  return tls && trace.tls.count() == 0 ? Step::kTls : Step::kAnswer;
}

void fill(HttpTrace& trace, CURL* easy, CURLcode result, bool tls) {
  const auto moment = [&](CURLINFO info) {
    curl_off_t value = 0;
    curl_easy_getinfo(easy, info, &value);
    return std::chrono::microseconds(value);
  };
  // libcurl counts from the beginning.
  const auto lookup = moment(CURLINFO_NAMELOOKUP_TIME_T), connect = moment(CURLINFO_CONNECT_TIME_T);
  const auto handshake = moment(CURLINFO_APPCONNECT_TIME_T), answer = moment(CURLINFO_STARTTRANSFER_TIME_T);
  trace.lookup = lookup;
  if (connect.count() != 0) trace.connect = connect - lookup;
  if (handshake.count() != 0) trace.tls = handshake - connect;
  if (answer.count() != 0) trace.answer = answer - std::max(connect, handshake);
  const char* address = nullptr;
  if (curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK && address != nullptr) trace.address = address;
  curl_certinfo* chain = nullptr;
  if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) == CURLE_OK && chain != nullptr && chain->num_of_certs > 0) {
    constexpr std::string_view kExpires = "Expire date:";
    for (const curl_slist* field = chain->certinfo[0]; field != nullptr; field = field->next) {
      if (std::string_view(field->data).starts_with(kExpires))
        trace.certificate_expires = field->data + kExpires.size();
    }
  }
  trace.failed_in = step_of(result, trace, tls);
}

Code code_of(CURLcode result) {
  switch (result) {
    case CURLE_OPERATION_TIMEDOUT: return Code::kTimeout;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return Code::kInvalid;
    default: return Code::kTransient;
  }
}

}  // namespace

Result<HttpAnswer> http_call(const HttpCall& call, const StopSignal& stop, HttpTrace* trace) {
  const std::string place = place_of(call.url);
  const Multi multi(curl_multi_init(), &curl_multi_cleanup);
  List headers(nullptr, &curl_slist_free_all);
  for (const auto& header : call.headers) {
    curl_slist* longer = curl_slist_append(headers.get(), header.c_str());
    if (longer == nullptr) return fail(Code::kNoMemory, place + ": no memory for a request");
    headers.release();
    headers.reset(longer);
  }
  const Easy easy(curl_easy_init(), &curl_easy_cleanup);
  HttpAnswer answer;
  if (!multi || !easy || !prepare(easy.get(), call, headers.get(), answer)) {
    return fail(Code::kNoMemory, place + ": libcurl takes no such request");
  }
  if (trace != nullptr) curl_easy_setopt(easy.get(), CURLOPT_CERTINFO, 1L);
  curl_multi_add_handle(multi.get(), easy.get());
  CURLcode result = CURLE_OK;
  for (bool running = true; running;) {
    int left = 0;
    if (stop.stopped() || curl_multi_perform(multi.get(), &left) != CURLM_OK) {
      curl_multi_remove_handle(multi.get(), easy.get());
      return fail(Code::kCancelled, place + ": cancelled");
    }
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      result = message->data.result;
      running = false;
    }
    if (!running) break;
    curl_waitfd stopping{stop.fd(), CURL_WAIT_POLLIN, 0};
    curl_multi_poll(multi.get(), &stopping, stop.fd() < 0 ? 0 : 1, kPollMs, nullptr);
  }
  if (trace != nullptr) fill(*trace, easy.get(), result, call.url.starts_with("https:"));
  curl_multi_remove_handle(multi.get(), easy.get());
  if (result == CURLE_OK) return answer;
  if (result == CURLE_OPERATION_TIMEDOUT) {
    return fail(Code::kTimeout, fmt::format("no answer from {} within {} ms", place, call.limit.count()));
  }
  return fail(code_of(result), fmt::format("{}: {}", place, curl_easy_strerror(result)));
}

}  // namespace shardfs::s3
