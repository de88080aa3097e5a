// The token service: keys of a role, for other keys or for a web identity token.
// Thread rule: thread-safe; blocks on the network, until the stop signal.
#pragma once

#include <string>

#include "s3/credential_sources.h"

namespace shardfs::s3 {

struct RoleRequest {
  std::string role_arn;
  std::string session_name;  // empty: shardfs-PID
  std::string external_id;
  std::string duration_s;  // empty: the service's own, an hour
  Section settings;        // of the profile: region and sts endpoint
};

/// AssumeRole, signed with `keys`. Errors: kPermission (refused), kTransient, kTimeout, kCancelled, kInvalid.
base::Result<Credentials> assume_role(const SourceContext& context, const RoleRequest& request, const Credentials& keys,
                                      const StopSignal& stop);

/// AssumeRoleWithWebIdentity; the token file is read anew. Errors: as assume_role.
base::Result<Credentials> assume_role_with_web_identity(const SourceContext& context, const RoleRequest& request,
                                                        const std::string& token_file, const StopSignal& stop);

}  // namespace shardfs::s3
