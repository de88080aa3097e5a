// CredentialsKeeper: the keys in use, renewed before they end, when their files are replaced, and when the store
// refuses them. Not the places they come from (credentials.h). Thread rule: thread-safe; no call blocks. It owns its
// source and one thread that loads; its destructor ends a load.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/executor.h"
#include "s3/credentials.h"

namespace shardfs::s3 {

class CredentialsKeeper {
 public:
  /// source null: requests are not signed. initial: what the source gave already. clock outlives the keeper.
  CredentialsKeeper(std::unique_ptr<CredentialsSource> source, std::optional<Credentials> initial, base::Clock& clock);
  ~CredentialsKeeper();

  bool signs() const { return source_ != nullptr; }
  /// Null only when requests are not signed.
  std::shared_ptr<const Credentials> current() const;
  /// Loads again, unless that was done since `seen` was current. done runs on the keeper's thread (never, if the keeper
  /// ends first); the argument says whether the credentials differ from `seen`. Of many callers at once one load serves
  /// all, also when it fails. Errors: as CredentialsSource.
  void renew(std::shared_ptr<const Credentials> seen, std::function<void(base::Result<bool> differ)> done);

 private:
  void load_for(const std::shared_ptr<const Credentials>& seen, const std::function<void(base::Result<bool>)>& done);
  void load_in_background();
  base::Result<void> load();
  void schedule(std::chrono::nanoseconds after);

  const std::unique_ptr<CredentialsSource> source_;  // used on the timer's thread only
  base::Clock& clock_;
  StopSignal stop_;
  mutable std::mutex mutex_;  // guards current_
  std::shared_ptr<const Credentials> current_;

  // The timer's thread only:
  std::optional<base::TimerId> next_;
  std::optional<base::Error> failure_;  // of the last load
  base::SteadyTime failed_at_{};

  std::unique_ptr<base::Timer> timer_;  // last: it ends first
};

/// When to load again; nothing: only when the store refuses the keys.
std::optional<std::chrono::nanoseconds> renewal_delay(const Credentials& credentials, base::WallTime now);

}  // namespace shardfs::s3
