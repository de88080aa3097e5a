#include "s3/profile_source.h"

#include <fmt/format.h>

#include <set>

#include "s3/sts.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

std::string setting(const Section& settings, const char* name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

class ProfileSource final : public CredentialsSource {
 public:
  ProfileSource(std::string profile, bool required, SourceContext context)
      : profile_(std::move(profile)), required_(required), context_(std::move(context)) {}

  Loaded load(const StopSignal& stop) override {
    std::set<std::string> seen;
    return load_profile_keys(profile_, required_, seen, stop);
  }
  std::string name() const override { return fmt::format("profile '{}'", profile_); }

 private:
  /// seen: the profiles whose roles lead here.
  Loaded load_profile_keys(const std::string& name, bool required, std::set<std::string>& seen,
                           const StopSignal& stop) const {
    const auto profile = load_profile(name, context_.environment);
    if (!profile) return tl::unexpected(profile.error());
    if (!profile->found && required) {
      return fail(Code::kPermission, fmt::format("no profile '{}' in {}", name, profile->sources));
    }
    const auto& settings = profile->settings;
    auto loaded = by_its_settings(name, settings, seen, stop);
    if (!loaded) {
      return fail(loaded.error().code, name == profile_
                                           ? loaded.error().message
                                           : fmt::format("profile '{}': {}", name, loaded.error().message));
    }
    if (loaded->has_value()) {
      if ((*loaded)->source.empty()) (*loaded)->source = fmt::format("profile '{}'", name);
      return loaded;
    }
    if (!required) return loaded;
    return fail(Code::kPermission, fmt::format("profile '{}' leads to no keys ({})", name, profile->sources));
  }

  Loaded by_its_settings(const std::string& name, const Section& settings, std::set<std::string>& seen,
                         const StopSignal& stop) const {
    // A role's profile may name itself as the source: then its own keys are meant.
    if (settings.contains("role_arn") && seen.insert(name).second) return by_role(name, settings, seen, stop);
    Credentials keys{setting(settings, "aws_access_key_id"),
                     setting(settings, "aws_secret_access_key"),
                     setting(settings, "aws_session_token"),
                     {},
                     true,
                     {}};
    if (!keys.access_key_id.empty() && !keys.secret_access_key.empty()) return std::optional(std::move(keys));
    if (settings.contains("role_arn")) return fail(Code::kPermission, "source_profile leads back to this profile");
    if (settings.contains("sso_session") || settings.contains("sso_start_url")) {
      return some(load_sso_credentials(context_, settings, stop));
    }
    if (const auto command = setting(settings, "credential_process"); !command.empty()) {
      return process_source(command)->load(stop);
    }
    return std::optional<Credentials>();
  }

  Loaded by_role(const std::string& name, const Section& settings, std::set<std::string>& seen,
                 const StopSignal& stop) const {
    RoleRequest request{setting(settings, "role_arn"), setting(settings, "role_session_name"),
                        setting(settings, "external_id"), setting(settings, "duration_seconds"), settings};
    if (settings.contains("mfa_serial")) return fail(Code::kPermission, "mfa_serial needs somebody who types a code");
    if (const auto file = setting(settings, "web_identity_token_file"); !file.empty()) {
      return named(name, request, assume_role_with_web_identity(context_, request, file, stop));
    }
    Loaded keys = std::optional<Credentials>();
    if (const auto source = setting(settings, "source_profile"); !source.empty()) {
      keys = load_profile_keys(source, true, seen, stop);
    } else if (const auto kind = setting(settings, "credential_source"); !kind.empty()) {
      keys = by_credential_source(kind, stop);
    } else {
      return fail(Code::kPermission, "role_arn needs source_profile, credential_source or web_identity_token_file");
    }
    if (!keys) return keys;
    return named(name, request, assume_role(context_, request, **keys, stop));
  }

  /// Never nothing.
  Loaded by_credential_source(const std::string& kind, const StopSignal& stop) const {
    std::unique_ptr<CredentialsSource> source;
    if (kind == "Environment") source = environment_source(kAwsKeyVariables, context_.environment);
    if (kind == "EcsContainer") source = container_source(context_);
    if (kind == "Ec2InstanceMetadata") source = metadata_source(context_);
    if (!source) {
      return fail(Code::kPermission,
                  fmt::format("credential_source '{}' is not Environment, EcsContainer or Ec2InstanceMetadata", kind));
    }
    auto loaded = source->load(stop);
    if (loaded && !loaded->has_value()) {
      return fail(Code::kPermission, fmt::format("credential_source {} has no keys", kind));
    }
    return loaded;
  }

  static Loaded some(Result<Credentials> loaded) {
    if (!loaded) return tl::unexpected(std::move(loaded.error()));
    return std::optional(std::move(*loaded));
  }

  static Loaded named(const std::string& name, const RoleRequest& request, Result<Credentials> loaded) {
    if (!loaded) return fail(loaded.error().code, fmt::format("role {}: {}", request.role_arn, loaded.error().message));
    loaded->source = fmt::format("profile '{}', role {}", name, request.role_arn);
    return std::optional(std::move(*loaded));
  }

  const std::string profile_;
  const bool required_;
  const SourceContext context_;
};

}  // namespace

std::unique_ptr<CredentialsSource> profile_source(std::string profile, bool required, SourceContext context) {
  return std::make_unique<ProfileSource>(std::move(profile), required, std::move(context));
}

}  // namespace shardfs::s3
