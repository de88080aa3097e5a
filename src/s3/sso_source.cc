#include <fmt/format.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>

#include "s3/credential_sources.h"
#include "s3/http_call.h"
#include "s3/timestamps.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

std::string sha1_of(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha1(), nullptr) != 1) return {};
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

/// The settings of `aws sso login`: in a section of their own, or in the profile.
struct Login {
  std::string start_url, region, cache_name;
};

Result<Login> login_of(const SourceContext& context, const Section& settings) {
  const auto value = [](const Section& section, const char* name) {
    const auto found = section.find(name);
    return found == section.end() ? std::string() : found->second;
  };
  Login out{value(settings, "sso_start_url"), value(settings, "sso_region"), value(settings, "sso_start_url")};
  if (const auto session = value(settings, "sso_session"); !session.empty()) {
    const auto section = load_config_section("sso-session " + session, context.environment);
    if (!section) return tl::unexpected(section.error());
    out = {value(*section, "sso_start_url"), value(*section, "sso_region"), session};
  }
  if (out.start_url.empty() || out.region.empty()) {
    return fail(Code::kPermission, "sso_start_url and sso_region are needed");
  }
  return out;
}

/// The token that the login left in its cache.
Result<std::string> token_of(const SourceContext& context, const Login& login) {
  const std::string path = aws_path("sso/cache/" + sha1_of(login.cache_name) + ".json", context.environment);
  const auto text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  if (!text->has_value()) return fail(Code::kPermission, fmt::format("there is no {}; run aws sso login", path));
  const auto document = nlohmann::json::parse(**text, nullptr, false);
  const auto value = [&](const char* name) {
    return document.is_object() && document.contains(name) && document[name].is_string()
               ? document[name].get<std::string>()
               : std::string();
  };
  const std::string token = value("accessToken");
  if (token.empty()) return fail(Code::kPermission, fmt::format("{} holds no token; run aws sso login", path));
  const auto expires = parse_iso_time(value("expiresAt"));
  if (expires && *expires <= std::chrono::system_clock::now()) {
    return fail(Code::kPermission, fmt::format("the token in {} has expired; run aws sso login", path));
  }
  return token;
}

Result<Credentials> parse_answer(const std::string& body) {
  const auto document = nlohmann::json::parse(body, nullptr, false);
  const auto keys = document.is_object() ? document.find("roleCredentials") : document.end();
  if (!document.is_object() || keys == document.end() || !keys->is_object()) {
    return fail(Code::kInvalid, "the SSO service answered without keys");
  }
  const auto value = [&](const char* name) {
    const auto found = keys->find(name);
    return found != keys->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials out{value("accessKeyId"), value("secretAccessKey"), value("sessionToken"), {}, false, {}};
  if (out.access_key_id.empty() || out.secret_access_key.empty()) {
    return fail(Code::kInvalid, "the SSO service answered without keys");
  }
  if (const auto expires = keys->find("expiration"); expires != keys->end() && expires->is_number_integer()) {
    out.expires = base::WallTime(std::chrono::milliseconds(expires->get<int64_t>()));
  }
  return out;
}

}  // namespace

Result<Credentials> load_sso_credentials(const SourceContext& context, const Section& settings,
                                         const StopSignal& stop) {
  const auto account = settings.find("sso_account_id"), role = settings.find("sso_role_name");
  if (account == settings.end() || role == settings.end()) {
    return fail(Code::kPermission, "sso_account_id and sso_role_name are needed");
  }
  const auto login = login_of(context, settings);
  if (!login) return tl::unexpected(login.error());
  const auto token = token_of(context, *login);
  if (!token) return tl::unexpected(token.error());
  HttpCall call;
  call.url = context.environment("AWS_ENDPOINT_URL_SSO")
                 .value_or(fmt::format("https://portal.sso.{}.amazonaws.com{}", login->region,
                                       login->region.starts_with("cn-") ? ".cn" : ""));
  while (call.url.ends_with('/')) call.url.pop_back();
  call.url +=
      "/federation/credentials?" + canonical_query({{"account_id", account->second}, {"role_name", role->second}});
  call.headers = {"x-amz-sso_bearer_token: " + *token};
  call.ca_file = context.ca_file;
  call.ca_folder = context.ca_folder;
  const auto answer = http_call(call, stop);
  if (!answer) return tl::unexpected(answer.error());
  const int status = answer->head.status();
  if (status == 200) return parse_answer(answer->body);
  if (status >= 500 || status == 429) return fail(Code::kTransient, fmt::format("the SSO service answered {}", status));
  return fail(Code::kPermission,
              fmt::format("the SSO service answered {}{}", status, status == 401 ? "; run aws sso login" : ""));
}

}  // namespace shardfs::s3
