// Settings: S3Options completed from the environment and the profile files.
// Thread rule: plain values; resolving blocks on local I/O, and on the network where keys come from there.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "s3/credential_sources.h"
#include "s3/s3_store.h"
#include "s3/uri.h"

namespace shardfs::s3 {

struct Settings {
  S3Options options;
  Target target;
  bool region_given = false;                  // else the store may name the right one
  std::unique_ptr<CredentialsSource> source;  // null: anonymous
  std::optional<Credentials> credentials;
  std::string ca_file, ca_folder;  // one of them, or none: the system's
};

/// All but the credentials. Errors: kInvalid (bucket, endpoint, region, CA bundle).
base::Result<Settings> resolve_place(S3Options options, const Environment& environment);

/// Errors: as make_s3_store.
base::Result<Settings> resolve_settings(S3Options options, const Environment& environment);

}  // namespace shardfs::s3
