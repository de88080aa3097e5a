// KeyVariables: the names of the environment variables that hold keys.
// Thread rule: plain values.
#pragma once

#include <string>

namespace shardfs::s3 {

struct KeyVariables {
  std::string access_key_id, secret_access_key, session_token;  // empty: none
};

}  // namespace shardfs::s3
