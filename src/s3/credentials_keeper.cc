#include "s3/credentials_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Source: the AWS tools renew ten to fifteen minutes ahead, and instance metadata has new keys five minutes ahead.
constexpr minutes kAhead{10};
// Source: two small files read; rotations keep old keys valid for minutes.
constexpr seconds kFilesAgain{60};
constexpr seconds kLeastDelay{1};
// After a failure; and for keys that have ended already.
constexpr seconds kMostAfterFailure{30};
// Requests that come together after a failed load share its error.
constexpr seconds kFailureServes{1};

}  // namespace

std::optional<nanoseconds> renewal_delay(const Credentials& credentials, base::WallTime now) {
  std::optional<nanoseconds> out;
  if (credentials.kept_in_file) out = kFilesAgain;
  if (!credentials.expires) return out;
  const nanoseconds left = *credentials.expires - now;
  if (left <= nanoseconds::zero()) return kMostAfterFailure;
  const nanoseconds delay = left - std::min<nanoseconds>(kAhead, left / 4);
  return std::max<nanoseconds>(kLeastDelay, out ? std::min(*out, delay) : delay);
}

CredentialsKeeper::CredentialsKeeper(std::unique_ptr<CredentialsSource> source, std::optional<Credentials> initial,
                                     base::Clock& clock)
    : source_(std::move(source)),
      clock_(clock),
      current_(initial ? std::make_shared<const Credentials>(std::move(*initial)) : nullptr),
      timer_(source_ ? std::make_unique<base::Timer>("s3-keys") : nullptr) {
  if (!timer_ || !current_) return;
  timer_->schedule(nanoseconds::zero(), [this] {
    if (const auto delay = renewal_delay(*current(), clock_.wall_now())) schedule(*delay);
  });
}

CredentialsKeeper::~CredentialsKeeper() { stop_.stop(); }

std::shared_ptr<const Credentials> CredentialsKeeper::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void CredentialsKeeper::renew(std::shared_ptr<const Credentials> seen, std::function<void(Result<bool>)> done) {
  timer_->schedule(nanoseconds::zero(),
                   [this, seen = std::move(seen), done = std::move(done)] { load_for(seen, done); });
}

void CredentialsKeeper::load_for(const std::shared_ptr<const Credentials>& seen,
                                 const std::function<void(Result<bool>)>& done) {
  const auto now = current();
  if (now != seen) return done(!seen || !(*now == *seen));  // another's load, after `seen` was taken
  if (failure_ && clock_.now() - failed_at_ < kFailureServes) return done(tl::unexpected(*failure_));
  if (auto loaded = load(); !loaded) return done(tl::unexpected(std::move(loaded.error())));
  done(!seen || !(*current() == *seen));
}

Result<void> CredentialsKeeper::load() {
  auto loaded = source_->load(stop_);
  if (loaded && !loaded->has_value()) loaded = fail(Code::kPermission, "no credentials any more in " + source_->name());
  const auto now = current();
  if (!loaded) {
    failure_ = loaded.error();
    failed_at_ = clock_.now();
    nanoseconds again = kMostAfterFailure;
    if (now && now->expires) {
      const nanoseconds left = *now->expires - clock_.wall_now();
      if (left > nanoseconds::zero()) again = std::clamp<nanoseconds>(left / 4, kLeastDelay, kMostAfterFailure);
    }
    schedule(again);
    return tl::unexpected(std::move(loaded.error()));
  }
  failure_.reset();
  auto fresh = std::make_shared<const Credentials>(std::move(**loaded));
  if (const auto delay = renewal_delay(*fresh, clock_.wall_now())) schedule(*delay);
  const std::lock_guard lock(mutex_);
  current_ = std::move(fresh);
  return {};
}

void CredentialsKeeper::load_in_background() {
  next_.reset();
  const auto before = current();
  if (auto loaded = load(); !loaded) {
    if (loaded.error().code != Code::kCancelled) {
      base::warn_once("renew credentials " + loaded.error().message, "s3: credentials are not renewed: {}",
                      loaded.error().message);
    }
  } else if (!before || !(*before == *current())) {
    base::log_info("s3: new credentials from {}", current()->source);
  }
}

void CredentialsKeeper::schedule(nanoseconds after) {
  if (next_) timer_->cancel(*next_);
  next_ = timer_->schedule(after, [this] { load_in_background(); });
}

}  // namespace shardfs::s3
