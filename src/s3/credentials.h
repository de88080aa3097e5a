// Credentials: where the keys come from, and how they are renewed while the mount lives.
// Not the signing. Secrets are in no message and no log line: Credentials has no way to be printed.
// Thread rule: sources are confined to one caller at a time (CredentialsKeeper sees to it) and may block;
// CredentialsKeeper is thread-safe and its calls don't block. It owns its source and one thread that renews.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "s3/profile_files.h"

namespace shardfs::s3 {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;              // empty: none
  std::optional<base::WallTime> expires;  // absent: not known

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

/// One place where credentials may be. New kinds (a process, instance metadata, web identity) are new subclasses.
class CredentialsSource {
 public:
  virtual ~CredentialsSource() = default;
  /// Reads anew each time; may block. Nothing: this source has none, the next one is asked.
  /// Errors: kPermission or kInvalid; the chain stops here.
  virtual base::Result<std::optional<Credentials>> load() = 0;
  /// For messages: "environment", "profile 'x'".
  virtual std::string name() const = 0;
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
std::unique_ptr<CredentialsSource> environment_source(Environment environment);
/// required: it is an error when there is no such profile or it holds no keys.
std::unique_ptr<CredentialsSource> profile_source(std::string profile, bool required, Environment environment);
/// The first of these that has some.
std::unique_ptr<CredentialsSource> chain_source(std::vector<std::unique_ptr<CredentialsSource>> sources);

/// The order in which places are asked: an explicit profile only; else the environment, then AWS_PROFILE or "default".
std::unique_ptr<CredentialsSource> default_source(const std::string& explicit_profile, Environment environment);

class CredentialsKeeper {
 public:
  /// source null: requests are not signed. initial: what the source gave already.
  CredentialsKeeper(std::unique_ptr<CredentialsSource> source, std::optional<Credentials> initial);
  ~CredentialsKeeper();

  bool signs() const { return source_ != nullptr; }
  /// Null only when requests are not signed.
  std::shared_ptr<const Credentials> current() const;
  /// Loads again, unless that was done since `seen` was current. done runs on the keeper's thread; the argument says
  /// whether the credentials differ from `seen`. Of many callers at once one load serves all.
  void renew(std::shared_ptr<const Credentials> seen, std::function<void(base::Result<bool> differ)> done);

 private:
  const std::unique_ptr<CredentialsSource> source_;  // used on thread_ only
  mutable std::mutex mutex_;                         // guards current_
  std::shared_ptr<const Credentials> current_;
  std::unique_ptr<base::ThreadPool> thread_;  // last: it ends first
};

}  // namespace shardfs::s3
