// ObjectStore over S3: signed GET, HEAD and ListObjectsV2 by libcurl, with retries, limits and metrics.
// Not a cache and no part plan: one get is one object's range, in order.
// Thread rule: thread-safe; callbacks run on the store's own loop threads. Destroying it cancels all, calls every done,
// and joins the threads; it must not be destroyed on one of them. Make it after the last fork.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/metrics.h"
#include "s3/key_variables.h"
#include "store/object_store.h"

namespace shardfs::s3 {

struct S3Options {
  std::string bucket;
  std::string endpoint_url;      // empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, else AWS in the region
  std::string region;            // empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, else us-east-1
  bool path_style = false;       // forced for IP addresses, single-label hosts, and buckets with dots
  bool no_sign_request = false;  // anonymous
  bool requester_pays = false;   // this account pays for requests to another's bucket
  std::string profile;           // empty: the places of docs/credentials.md in their order
  KeyVariables key_variables;    // other names for the variables with keys; empty: none
  std::string ca_bundle;         // file or folder; empty: AWS_CA_BUNDLE, the profile's, else the system's
  bool verify_tls = true;
  unsigned connections = 64;               // at once, all loops together, at most (connection_policy.h)
  unsigned loops = 2;                      // threads. Source: one keeps up with 16 connections, not with 32 (design 8)
  uint64_t max_bandwidth_bytes_per_s = 0;  // received; 0: no limit
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds first_byte_timeout{30000};  // from the request sent to the answer's head
  std::chrono::milliseconds stall_timeout{30000};       // without a byte of the body
  std::string user_agent;                               // empty: shardfs/VERSION
};

/// Reads profile files, asks for credentials (which may take to the network), starts threads. clock and metrics outlive
/// the store. Metrics: counters store_requests{get|head|list} (every try), store_retries{get|head|list},
/// store_errors{code}, store_requests_refused, store_received_bytes; histograms
/// store_first_byte_seconds{get|head|list}; gauges store_connections_active, store_connections_limit,
/// store_requests_waiting. Errors: kInvalid (bucket, endpoint, CA bundle), kPermission (no credentials), kNoMemory.
base::Result<std::unique_ptr<store::ObjectStore>> make_s3_store(S3Options options, base::Clock& clock,
                                                                base::Metrics& metrics);

}  // namespace shardfs::s3
