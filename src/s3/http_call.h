// http_call: one small HTTP exchange of a source of credentials, with a token service or a metadata address.
// Not the store's transport (transport.h): one try, no redirect, an answer of at most 256 KiB.
// Thread rule: thread-safe; blocks until the answer, the time limit, or the stop signal.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "s3/response_head.h"
#include "s3/stop_signal.h"

namespace shardfs::s3 {

struct HttpCall {
  std::string url;
  std::string method = "GET";
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // only with POST and PUT
  std::chrono::milliseconds limit{10000};
  bool direct = false;             // through no proxy, whatever the environment says
  std::string ca_file, ca_folder;  // empty: the system's
};

struct HttpAnswer {
  ResponseHead head;
  std::string body;
};

/// How far a call came, and how long each step took; 0: it was not reached.
struct HttpTrace {
  enum class Step { kLookup, kConnect, kTls, kAnswer } failed_in = Step::kAnswer;  // if it failed
  std::chrono::microseconds lookup{0}, connect{0}, tls{0}, answer{0};              // each one's own time
  std::string address;              // that answered: the store's, or the proxy's
  std::string certificate_expires;  // as OpenSSL writes it; empty without TLS
};

/// Errors: kTransient (no connection, broken), kTimeout, kCancelled, kInvalid (no such URL, TLS not trusted); the
/// message holds neither headers nor a query.
base::Result<HttpAnswer> http_call(const HttpCall& call, const StopSignal& stop, HttpTrace* trace = nullptr);

}  // namespace shardfs::s3
