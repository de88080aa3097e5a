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

/// Errors: kTransient (no connection, broken), kTimeout, kCancelled, kInvalid (no such URL, TLS not trusted); the
/// message holds neither headers nor a query.
base::Result<HttpAnswer> http_call(const HttpCall& call, const StopSignal& stop);

}  // namespace shardfs::s3
