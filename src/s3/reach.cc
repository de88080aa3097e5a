#include "s3/reach.h"

#include "s3/http_call.h"
#include "s3/settings.h"
#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

// Source: somebody waits at a prompt, and a store far away answers within a second.
constexpr std::chrono::seconds kLimit{10};

Reach::Step step_of(HttpTrace::Step step) {
  switch (step) {
    case HttpTrace::Step::kLookup: return Reach::Step::kLookup;
    case HttpTrace::Step::kConnect: return Reach::Step::kConnect;
    case HttpTrace::Step::kTls: return Reach::Step::kTls;
    case HttpTrace::Step::kAnswer: return Reach::Step::kAnswer;
  }
  return Reach::Step::kAnswer;
}

}  // namespace

base::Result<Reach> reach_endpoint(const S3Options& options) {
  const auto settings = resolve_place(options, process_environment());
  if (!settings) return tl::unexpected(settings.error());
  const Target& target = settings->target;
  Reach out;
  out.endpoint = target.endpoint.text();
  out.region = target.region;
  out.region_given = settings->region_given;
  out.path_style = target.path_style;
  out.tls = target.endpoint.scheme == "https";
  HttpCall call;
  call.method = "HEAD";
  call.url = target.url(target.path({}), {});
  call.limit = kLimit;
  call.ca_file = settings->ca_file;
  call.ca_folder = settings->ca_folder;
  HttpTrace trace;
  const StopSignal never;
  const auto answer = http_call(call, never, &trace);
  out.lookup = trace.lookup;
  out.connect = trace.connect;
  out.tls_handshake = trace.tls;
  out.answer = trace.answer;
  out.address = trace.address;
  out.certificate_expires = trace.certificate_expires;
  if (!answer) {
    out.came_to = step_of(trace.failed_in);
    out.failure = answer.error().message;
    return out;
  }
  out.status = answer->head.status();
  out.bucket_region = answer->head.header("x-amz-bucket-region");
  if (const auto date = parse_http_time(answer->head.header("date"))) {
    out.clock_ahead = std::chrono::round<std::chrono::seconds>(std::chrono::system_clock::now() - *date);
  }
  return out;
}

base::Result<KeysFound> find_keys(const S3Options& options) {
  const auto settings = resolve_settings(options, process_environment());
  if (!settings) return tl::unexpected(settings.error());
  if (!settings->credentials) return KeysFound{};
  return KeysFound{settings->credentials->source, settings->credentials->expires};
}

}  // namespace shardfs::s3
