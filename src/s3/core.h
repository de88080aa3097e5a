// Core: what all requests of one store share: where it is, its keys, its clock, what was learned of it, its metrics.
// Not the request: operation.h.
// Thread rule: thread-safe. It owns the transport.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "s3/credentials_keeper.h"
#include "s3/error_mapping.h"
#include "s3/settings.h"
#include "s3/transport.h"

namespace shardfs::s3 {

/// One try, before it is signed.
struct RequestParts {
  RequestKind kind = RequestKind::kGet;
  std::string_view key;                                             // empty: the bucket
  std::vector<std::pair<std::string, std::string>> query;           // raw
  std::vector<std::pair<std::string, std::string>> signed_headers;  // lower case
  std::vector<std::string> plain_headers;                           // "Name: value"
};

class Core {
 public:
  struct KindMetrics {
    base::Counter* requests;
    base::Counter* retries;
    base::Histogram* first_byte;
  };

  Core(Settings settings, base::Clock& clock, base::Metrics& metrics, std::unique_ptr<Transport> transport);
  ~Core();

  /// Signed for now with these credentials (null: not at all), for the region and clock that are known to be right.
  TransferRequest make_request(const RequestParts& parts, const Credentials* credentials) const;

  const S3Options& options() const { return settings_.options; }
  base::Clock& clock() const { return clock_; }
  Transport& transport() const { return *transport_; }
  CredentialsKeeper& credentials() { return credentials_; }
  KindMetrics& metrics_of(RequestKind kind) { return kind_metrics_[static_cast<size_t>(kind)]; }
  base::Counter& errors(base::Code code) { return metrics_.counter("store_errors", base::name_of(code)); }

  std::shared_ptr<const Target> target() const;
  /// True if requests now go there. Refused when the user named another region.
  bool switch_region(const std::string& region);
  /// From an answer's Date.
  void fix_clock(base::WallTime store_now);
  /// This machine's clock, corrected.
  base::WallTime store_now() const;

  // What was learned of the store, for the life of the mount.
  std::atomic<bool> without_if_match{false};
  std::atomic<bool> list_version_1{false};

  /// From now on new operations end at once.
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> in_flight{0};  // operations that have not ended

 private:
  Settings settings_;  // not changed after the constructor; its target is the first one
  base::Clock& clock_;
  base::Metrics& metrics_;
  std::array<KindMetrics, 3> kind_metrics_;
  std::atomic<int64_t> skew_s_{0};  // store's clock minus ours
  mutable std::mutex mutex_;        // guards target_
  std::shared_ptr<const Target> target_;
  std::unique_ptr<Transport> transport_;
  CredentialsKeeper credentials_;  // ends before the transport: its callbacks post to the loops
};

}  // namespace shardfs::s3
