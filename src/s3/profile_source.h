// ProfileSource: keys from a profile of the AWS files, whichever way the profile says: a role (for the keys of another
// profile, of another source, or for a web identity token), keys in the file, an SSO login, a process.
// Thread rule: as CredentialsSource.
#pragma once

#include <memory>
#include <string>

#include "s3/credential_sources.h"

namespace shardfs::s3 {

/// required: it is an error when there is no such profile or it leads to no keys.
std::unique_ptr<CredentialsSource> profile_source(std::string profile, bool required, SourceContext context);

}  // namespace shardfs::s3
