// Credentials, and the one interface behind which all places are that may give them.
// Not the places themselves (credential_sources.h, profile_source.h), nor their renewal (credentials_keeper.h).
// Secrets are in no message and no log line: Credentials has no way to be printed.
// Thread rule: sources are confined to one caller at a time and may block; all else are plain values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "s3/stop_signal.h"

namespace shardfs::s3 {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;              // empty: none
  std::optional<base::WallTime> expires;  // absent: not known
  bool kept_in_file = false;              // where they may be replaced at any time
  std::string source;                     // "environment", "profile 'x'": for messages

  /// The same keys, wherever they are from.
  friend bool operator==(const Credentials& a, const Credentials& b) {
    return a.access_key_id == b.access_key_id && a.secret_access_key == b.secret_access_key &&
           a.session_token == b.session_token;
  }
};

class CredentialsSource {
 public:
  using Loaded = base::Result<std::optional<Credentials>>;
  virtual ~CredentialsSource() = default;
  /// Reads anew each time; may block, until `stop` says so. Nothing: this source has none.
  /// Errors: kPermission or kInvalid (it is set up wrongly or refused), kTransient or kTimeout (may pass), kCancelled.
  virtual Loaded load(const StopSignal& stop) = 0;
  /// For messages: "environment", "profile 'x'".
  virtual std::string name() const = 0;
};

/// The first of these that has some. One that fails is passed over with one warning; if none has any, the error says
/// what each of them said, and is kTransient if one of them may come back.
std::unique_ptr<CredentialsSource> chain_source(std::vector<std::unique_ptr<CredentialsSource>> sources);

}  // namespace shardfs::s3
