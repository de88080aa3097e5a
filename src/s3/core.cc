#include "s3/core.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/log.h"
#include "s3/sigv4.h"
#include "s3/timestamps.h"

namespace shardfs::s3 {

Core::Core(Settings settings, base::Clock& clock, base::Metrics& metrics, std::unique_ptr<Transport> transport)
    : settings_(std::move(settings)),
      clock_(clock),
      metrics_(metrics),
      target_(std::make_shared<const Target>(settings_.target)),
      transport_(std::move(transport)),
      credentials_(std::move(settings_.source), settings_.credentials, clock) {
  for (const auto kind : {RequestKind::kGet, RequestKind::kHead, RequestKind::kList}) {
    kind_metrics_[static_cast<size_t>(kind)] = {&metrics.counter("store_requests", name_of(kind)),
                                                &metrics.counter("store_retries", name_of(kind)),
                                                &metrics.histogram("store_first_byte_seconds", name_of(kind))};
  }
}

Core::~Core() = default;

std::shared_ptr<const Target> Core::target() const {
  const std::lock_guard lock(mutex_);
  return target_;
}

bool Core::switch_region(const std::string& region) {
  if (settings_.region_given) return false;
  const auto& options = settings_.options;
  auto target = make_target(options.bucket, options.endpoint_url, region, options.path_style);
  if (!target) return false;
  base::warn_once("s3 region " + region, "s3: bucket {} is in region {}; using that", options.bucket, region);
  const std::lock_guard lock(mutex_);
  target_ = std::make_shared<const Target>(std::move(*target));
  return true;
}

void Core::fix_clock(base::WallTime store_now) {
  const auto skew = std::chrono::round<std::chrono::seconds>(store_now - clock_.wall_now()).count();
  skew_s_ = skew;
  base::warn_once("s3 clock", "s3: this machine's clock is {} s {} the store's; requests are signed with the store's",
                  std::abs(skew), skew > 0 ? "behind" : "ahead of");
}

base::WallTime Core::store_now() const { return clock_.wall_now() + std::chrono::seconds(skew_s_.load()); }

TransferRequest Core::make_request(const RequestParts& parts, const Credentials* credentials) const {
  const auto target = this->target();
  const std::string path = target->path(parts.key);
  const std::string query = canonical_query(parts.query);
  TransferRequest out;
  out.head_only = parts.kind == RequestKind::kHead;
  out.url = target->url(path, query);
  out.headers = parts.plain_headers;
  // An object is its stored bytes, whatever its Content-Encoding.
  out.headers.emplace_back("Accept-Encoding: identity");
  SignedParts to_sign;
  to_sign.method = out.head_only ? "HEAD" : "GET";
  to_sign.path = path;
  to_sign.query = query;
  to_sign.headers = parts.signed_headers;
  if (settings_.options.requester_pays) to_sign.headers.emplace_back("x-amz-request-payer", "requester");
  std::string date;
  if (credentials != nullptr) {
    date = format_amz_date(store_now());
    to_sign.headers.emplace_back("x-amz-date", date);
    to_sign.headers.emplace_back("x-amz-content-sha256", kEmptySha256);
    if (!credentials->session_token.empty()) {
      to_sign.headers.emplace_back("x-amz-security-token", credentials->session_token);
    }
  }
  for (const auto& [name, value] : to_sign.headers) out.headers.push_back(name + ": " + value);
  if (credentials != nullptr) {
    to_sign.headers.emplace_back("host", target->host());
    const SigningScope scope{credentials->access_key_id, credentials->secret_access_key, target->region, "s3", date};
    out.headers.push_back("Authorization: " + authorization(scope, to_sign));
  }
  return out;
}

}  // namespace shardfs::s3
