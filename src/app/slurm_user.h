// What a prolog or epilog does with the rights of the job's user and nobody else's: each in a process of its own, that
// gives up root for good before it looks at anything the user named.
// Thread rule: for the only thread of a process that does nothing else. May block on the user's file systems: its
// caller sets a time limit.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace shardfs::app {

struct SlurmUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
};

/// Gives up all privilege, groups included. Errors: kNotFound (no such user), kPermission.
base::Result<void> become(const SlurmUser& user);

/// Requires: become. The keys of a profile in the user's own files, as JSON in the format of credential_process, and of
/// nothing else: not the environment, not the node's instance role. file: empty for ~/.aws/credentials.
base::Result<std::string> user_credentials(const std::string& file, const std::string& profile);

/// Requires: become. Appends a line to a plain file, that is made if it is missing.
base::Result<void> append_line(const std::string& path, const std::string& line);

}  // namespace shardfs::app
