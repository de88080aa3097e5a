// reach: the first contact with an endpoint, step by step, and where keys would come from: for `shardfs check`.
// Not a store (s3_store.h): nothing is signed, nothing of the bucket is read.
// Thread rule: plain functions that block on the network; each has its own limit of time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "s3/s3_store.h"

namespace shardfs::s3 {

struct Reach {
  std::string endpoint;  // "https://s3.eu-west-1.amazonaws.com"
  std::string region;    // that requests are signed for
  bool region_given = false;
  bool path_style = false;
  bool tls = false;

  enum class Step { kLookup, kConnect, kTls, kAnswer, kDone } came_to = Step::kDone;  // kDone: it answered
  std::string failure;                                                                // of that step
  std::chrono::microseconds lookup{0}, connect{0}, tls_handshake{0}, answer{0};
  std::string address;
  std::string certificate_expires;
  int status = 0;                                   // of a HEAD of the bucket without keys
  std::optional<std::chrono::seconds> clock_ahead;  // this machine's clock minus the store's
  std::string bucket_region;                        // as the store says; empty: it doesn't
};

/// Errors: kInvalid (bucket, endpoint, region, CA bundle make no sense). What the network does is in the answer.
base::Result<Reach> reach_endpoint(const S3Options& options);

struct KeysFound {
  std::string source;                     // empty: requests are not signed
  std::optional<base::WallTime> expires;  // absent: not known
};

/// Errors: kInvalid, kPermission (no place gives keys; the message says what each said).
base::Result<KeysFound> find_keys(const S3Options& options);

}  // namespace shardfs::s3
