#include "s3/credential_sources.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "s3/error_mapping.h"
#include "s3/profile_source.h"
#include "s3/sts.h"
#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

class EnvironmentSource final : public CredentialsSource {
 public:
  EnvironmentSource(const KeyVariables& variables, Environment environment)
      : variables_(variables), environment_(std::move(environment)) {}

  Loaded load(const StopSignal&) override {
    const auto id = environment_(variables_.access_key_id), secret = environment_(variables_.secret_access_key);
    if (!id && !secret) return std::optional<Credentials>();
    if (!id || !secret) {
      return fail(Code::kPermission, fmt::format("{} and {} must both be set; {} is missing", variables_.access_key_id,
                                                 variables_.secret_access_key,
                                                 id ? variables_.secret_access_key : variables_.access_key_id));
    }
    Credentials out{*id, *secret, {}, {}, false, name()};
    if (!variables_.session_token.empty()) out.session_token = environment_(variables_.session_token).value_or("");
    return std::optional(std::move(out));
  }

  std::string name() const override {
    return variables_.access_key_id == kAwsKeyVariables.access_key_id ? "environment" : variables_.access_key_id;
  }

 private:
  const KeyVariables variables_;
  const Environment environment_;
};

class WebIdentitySource final : public CredentialsSource {
 public:
  explicit WebIdentitySource(SourceContext context) : context_(std::move(context)) {}

  Loaded load(const StopSignal& stop) override {
    const auto file = context_.environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    const auto role = context_.environment("AWS_ROLE_ARN");
    if (!file) return std::optional<Credentials>();
    if (!role) return fail(Code::kPermission, "AWS_WEB_IDENTITY_TOKEN_FILE is set, AWS_ROLE_ARN is not");
    RoleRequest request;
    request.role_arn = *role;
    request.session_name = context_.environment("AWS_ROLE_SESSION_NAME").value_or("");
    auto loaded = assume_role_with_web_identity(context_, request, *file, stop);
    if (!loaded) return tl::unexpected(std::move(loaded.error()));
    loaded->source = name();
    return std::optional(std::move(*loaded));
  }
  std::string name() const override { return "web identity"; }

 private:
  const SourceContext context_;
};

std::string text_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::unique_ptr<CredentialsSource> environment_source(const KeyVariables& variables, Environment environment) {
  return std::make_unique<EnvironmentSource>(variables, std::move(environment));
}

std::unique_ptr<CredentialsSource> web_identity_source(SourceContext context) {
  return std::make_unique<WebIdentitySource>(std::move(context));
}

Result<Credentials> parse_credentials(const std::string& json, const std::string& origin) {
  const auto document = nlohmann::json::parse(json, nullptr, false);
  if (!document.is_object()) return fail(Code::kInvalid, origin + " gave no JSON object");
  Credentials out;
  out.access_key_id = text_of(document, "AccessKeyId");
  out.secret_access_key = text_of(document, "SecretAccessKey");
  out.session_token = text_of(document, "Token");
  if (out.session_token.empty()) out.session_token = text_of(document, "SessionToken");
  if (out.access_key_id.empty() || out.secret_access_key.empty()) {
    const std::string code = text_of(document, "Code"), message = text_of(document, "Message");
    return fail(code.empty() ? Code::kInvalid : Code::kPermission,
                fmt::format("{} gave no AccessKeyId with SecretAccessKey{}{}{}{}", origin, code.empty() ? "" : ": ",
                            printable(code), message.empty() ? "" : ": ", printable(message)));
  }
  if (const auto expires = text_of(document, "Expiration"); !expires.empty()) {
    out.expires = parse_iso_time(expires);
    if (!out.expires) return fail(Code::kInvalid, fmt::format("{} gave an Expiration that is no time", origin));
  }
  return out;
}

std::unique_ptr<CredentialsSource> default_source(const std::string& explicit_profile, const KeyVariables& mapped,
                                                  SourceContext context) {
  if (!explicit_profile.empty()) return profile_source(explicit_profile, true, std::move(context));
  const auto named = context.environment("AWS_PROFILE");
  std::vector<std::unique_ptr<CredentialsSource>> sources;
  if (!mapped.access_key_id.empty()) sources.push_back(environment_source(mapped, context.environment));
  sources.push_back(environment_source(kAwsKeyVariables, context.environment));
  sources.push_back(profile_source(named.value_or("default"), named.has_value(), context));
  sources.push_back(web_identity_source(context));
  sources.push_back(container_source(context));
  sources.push_back(metadata_source(std::move(context)));
  return chain_source(std::move(sources));
}

}  // namespace shardfs::s3
