// What the s3 room is told, out of the options of a command.
// Thread rule: a pure function.
#pragma once

#include "app/options.h"
#include "app/url.h"
#include "s3/s3_store.h"

namespace shardfs::app {

inline s3::S3Options store_options(const SourceUrl& source, const MountOptions& options) {
  s3::S3Options result;
  result.bucket = source.bucket;
  result.endpoint_url = options.endpoint_url;
  result.region = options.region;
  result.path_style = options.path_style;
  result.no_sign_request = options.no_sign_request;
  result.requester_pays = options.requester_pays;
  result.profile = options.profile;
  result.key_variables = options.key_variables;
  result.ca_bundle = options.ca_bundle;
  result.connections = options.connections;
  result.max_bandwidth_bytes_per_s = options.max_bandwidth_bytes_per_s;
  return result;
}

}  // namespace shardfs::app
