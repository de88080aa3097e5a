#include "s3/credentials.h"

#include <fmt/format.h>

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;
using Loaded = Result<std::optional<Credentials>>;

class EnvironmentSource final : public CredentialsSource {
 public:
  explicit EnvironmentSource(Environment environment) : environment_(std::move(environment)) {}
  Loaded load() override {
    const auto id = environment_("AWS_ACCESS_KEY_ID"), secret = environment_("AWS_SECRET_ACCESS_KEY");
    if (!id && !secret) return std::optional<Credentials>();
    if (!id || !secret) {
      return fail(Code::kPermission,
                  fmt::format("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set; {} is missing",
                              id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
    }
    return std::optional(Credentials{*id, *secret, environment_("AWS_SESSION_TOKEN").value_or(""), {}});
  }
  std::string name() const override { return "environment"; }

 private:
  const Environment environment_;
};

class ProfileSource final : public CredentialsSource {
 public:
  ProfileSource(std::string profile, bool required, Environment environment)
      : profile_(std::move(profile)), required_(required), environment_(std::move(environment)) {}
  Loaded load() override {
    auto profile = load_profile(profile_, environment_);
    if (!profile) return tl::unexpected(profile.error());
    if (!profile->found && required_) {
      return fail(Code::kPermission, fmt::format("no profile '{}' in {}", profile_, profile->sources));
    }
    auto& settings = profile->settings;
    Credentials out{
        settings["aws_access_key_id"], settings["aws_secret_access_key"], settings["aws_session_token"], {}};
    if (!out.access_key_id.empty() && !out.secret_access_key.empty()) return std::optional(std::move(out));
    for (const char* other : {"credential_process", "sso_session", "sso_start_url", "role_arn"}) {
      if (settings.count(other) != 0) {
        return fail(Code::kPermission,
                    fmt::format("profile '{}': {} is not supported yet; put keys into the profile or "
                                "the environment",
                                profile_, other));
      }
    }
    if (!required_) return std::optional<Credentials>();
    return fail(Code::kPermission,
                fmt::format("profile '{}' holds no aws_access_key_id with aws_secret_access_key ({})", profile_,
                            profile->sources));
  }
  std::string name() const override { return fmt::format("profile '{}'", profile_); }

 private:
  const std::string profile_;
  const bool required_;
  const Environment environment_;
};

class ChainSource final : public CredentialsSource {
 public:
  explicit ChainSource(std::vector<std::unique_ptr<CredentialsSource>> sources) : sources_(std::move(sources)) {}
  Loaded load() override {
    for (const auto& source : sources_) {
      auto loaded = source->load();
      if (!loaded || loaded->has_value()) return loaded;
    }
    return std::optional<Credentials>();
  }
  std::string name() const override {
    std::string out;
    for (const auto& source : sources_) out += (out.empty() ? "" : ", ") + source->name();
    return out;
  }

 private:
  const std::vector<std::unique_ptr<CredentialsSource>> sources_;
};

}  // namespace

std::unique_ptr<CredentialsSource> environment_source(Environment environment) {
  return std::make_unique<EnvironmentSource>(std::move(environment));
}

std::unique_ptr<CredentialsSource> profile_source(std::string profile, bool required, Environment environment) {
  return std::make_unique<ProfileSource>(std::move(profile), required, std::move(environment));
}

std::unique_ptr<CredentialsSource> chain_source(std::vector<std::unique_ptr<CredentialsSource>> sources) {
  return std::make_unique<ChainSource>(std::move(sources));
}

std::unique_ptr<CredentialsSource> default_source(const std::string& explicit_profile, Environment environment) {
  if (!explicit_profile.empty()) return profile_source(explicit_profile, true, std::move(environment));
  const auto named = environment("AWS_PROFILE");
  std::vector<std::unique_ptr<CredentialsSource>> sources;
  sources.push_back(environment_source(environment));
  sources.push_back(profile_source(named.value_or("default"), named.has_value(), std::move(environment)));
  return chain_source(std::move(sources));
}

CredentialsKeeper::CredentialsKeeper(std::unique_ptr<CredentialsSource> source, std::optional<Credentials> initial)
    : source_(std::move(source)),
      current_(initial ? std::make_shared<const Credentials>(std::move(*initial)) : nullptr),
      thread_(source_ ? std::make_unique<base::ThreadPool>("s3-keys", 1) : nullptr) {}

CredentialsKeeper::~CredentialsKeeper() = default;

std::shared_ptr<const Credentials> CredentialsKeeper::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void CredentialsKeeper::renew(std::shared_ptr<const Credentials> seen, std::function<void(Result<bool>)> done) {
  thread_->post([this, seen = std::move(seen), done = std::move(done)] {
    const auto now = current();
    if (now != seen) {  // another caller's load, after `seen` was taken
      done(!seen || !(*now == *seen));
      return;
    }
    auto loaded = source_->load();
    if (!loaded) return done(tl::unexpected(loaded.error()));
    if (!loaded->has_value()) {
      return done(fail(Code::kPermission, fmt::format("no credentials any more in {}", source_->name())));
    }
    auto fresh = std::make_shared<const Credentials>(std::move(**loaded));
    const bool differ = !seen || !(*fresh == *seen);
    {
      const std::lock_guard lock(mutex_);
      current_ = std::move(fresh);
    }
    done(differ);
  });
}

}  // namespace shardfs::s3
