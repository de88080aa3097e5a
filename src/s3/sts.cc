#include "s3/sts.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <pugixml.hpp>

#include "s3/error_mapping.h"
#include "s3/http_call.h"
#include "s3/sigv4.h"
#include "s3/timestamps.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;
using Form = std::vector<std::pair<std::string, std::string>>;

// Source: a service that starts again or throttles is back within a second or two; the caller has other places to ask.
constexpr int kTries = 3;
constexpr int kFirstWaitMs = 200;
constexpr std::chrono::minutes kSkewSuspected{5};  // as of the store

struct Service {
  Endpoint endpoint;
  std::string region;
};

Result<Service> service_of(const SourceContext& context, const Section& settings) {
  const auto setting = [&](const char* name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string() : found->second;
  };
  Service out;
  out.region = context.region.empty() ? setting("region") : context.region;
  if (out.region.empty()) out.region = "us-east-1";
  std::string url = context.environment("AWS_ENDPOINT_URL_STS").value_or(setting("sts.endpoint_url"));
  if (url.empty()) {
    url = fmt::format("https://sts.{}.amazonaws.com{}", out.region, out.region.starts_with("cn-") ? ".cn" : "");
  }
  auto endpoint = parse_endpoint(url);
  if (!endpoint) return tl::unexpected(std::move(endpoint.error()));
  out.endpoint = std::move(*endpoint);
  return out;
}

HttpCall make_call(const SourceContext& context, const Service& service, const std::string& body,
                   const Credentials* keys, base::WallTime now) {
  const std::string path = service.endpoint.base_path.empty() ? "/" : service.endpoint.base_path;
  const std::string host =
      service.endpoint.host + (service.endpoint.port == 0 ? "" : fmt::format(":{}", service.endpoint.port));
  HttpCall out;
  out.url = fmt::format("{}://{}{}", service.endpoint.scheme, host, path);
  out.method = "POST";
  out.body = body;
  out.ca_file = context.ca_file;
  out.ca_folder = context.ca_folder;
  const std::string type = "application/x-www-form-urlencoded; charset=utf-8";
  out.headers = {"Content-Type: " + type, "Accept: application/xml"};
  if (keys == nullptr) return out;
  const std::string date = format_amz_date(now), digest = sha256_of(body);
  SignedParts parts;
  parts.method = "POST";
  parts.path = path;
  parts.payload_sha256 = digest;
  parts.headers = {{"content-type", type}, {"host", host}, {"x-amz-date", date}};
  out.headers.push_back("X-Amz-Date: " + date);
  if (!keys->session_token.empty()) {
    parts.headers.emplace_back("x-amz-security-token", keys->session_token);
    out.headers.push_back("X-Amz-Security-Token: " + keys->session_token);
  }
  const SigningScope scope{keys->access_key_id, keys->secret_access_key, service.region, "sts", date};
  out.headers.push_back("Authorization: " + authorization(scope, parts));
  return out;
}

Result<Credentials> parse_answer(const std::string& body, const char* action) {
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size());
  const auto keys = document.child(fmt::format("{}Response", action).c_str())
                        .child(fmt::format("{}Result", action).c_str())
                        .child("Credentials");
  Credentials out{keys.child_value("AccessKeyId"),
                  keys.child_value("SecretAccessKey"),
                  keys.child_value("SessionToken"),
                  parse_iso_time(keys.child_value("Expiration")),
                  false,
                  {}};
  if (out.access_key_id.empty() || out.secret_access_key.empty()) {
    return fail(Code::kInvalid, fmt::format("the token service answered {} without keys", action));
  }
  return out;
}

void wait_or_stop(int wait_ms, const StopSignal& stop) {
  pollfd event{stop.fd(), POLLIN, 0};
  ::poll(&event, 1, wait_ms);
}

base::Error refusal(const HttpAnswer& answer, const std::string& url) {
  const auto error = parse_error_body(answer.body);
  const int status = answer.head.status();
  const bool passes =
      status >= 500 || status == 429 || error.code == "Throttling" || error.code == "IDPCommunicationError";
  return {passes ? Code::kTransient : Code::kPermission,
          fmt::format("{}: {} {}{}{}", url, status, printable(error.code), error.message.empty() ? "" : ": ",
                      printable(error.message))};
}

/// keys null: not signed.
Result<Credentials> ask(const SourceContext& context, const Section& settings, const char* action, Form form,
                        const Credentials* keys, const StopSignal& stop) {
  const auto service = service_of(context, settings);
  if (!service) return tl::unexpected(service.error());
  form.emplace_back("Action", action);
  form.emplace_back("Version", "2011-06-15");
  const std::string body = canonical_query(form);
  std::chrono::system_clock::duration skew{};
  base::Error last;
  for (int tries = 0; tries < kTries; ++tries) {
    if (tries > 0) wait_or_stop(kFirstWaitMs << tries, stop);
    const auto call = make_call(context, *service, body, keys, std::chrono::system_clock::now() + skew);
    const auto answer = http_call(call, stop);
    if (!answer) {
      last = answer.error();
      if (last.code != Code::kTransient && last.code != Code::kTimeout) break;
      continue;
    }
    if (answer->head.status() == 200) return parse_answer(answer->body, action);
    last = refusal(*answer, call.url);
    if (last.code == Code::kTransient) continue;
    const auto date = parse_http_time(answer->head.header("date"));
    if (keys == nullptr || !date || skew != skew.zero()) break;
    skew = *date - std::chrono::system_clock::now();
    if (std::chrono::abs(skew) < kSkewSuspected) break;  // else once more, signed with the service's clock
  }
  return tl::unexpected(std::move(last));
}

Form role_form(const RoleRequest& request) {
  Form form{
      {"RoleArn", request.role_arn},
      {"RoleSessionName", request.session_name.empty() ? fmt::format("shardfs-{}", ::getpid()) : request.session_name}};
  if (!request.external_id.empty()) form.emplace_back("ExternalId", request.external_id);
  if (!request.duration_s.empty()) form.emplace_back("DurationSeconds", request.duration_s);
  return form;
}

}  // namespace

Result<Credentials> assume_role(const SourceContext& context, const RoleRequest& request, const Credentials& keys,
                                const StopSignal& stop) {
  return ask(context, request.settings, "AssumeRole", role_form(request), &keys, stop);
}

Result<Credentials> assume_role_with_web_identity(const SourceContext& context, const RoleRequest& request,
                                                  const std::string& token_file, const StopSignal& stop) {
  auto token = read_file(token_file);
  if (!token) return tl::unexpected(std::move(token.error()));
  std::string text = token->value_or("");
  while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with(' ')) text.pop_back();
  if (text.empty()) return fail(Code::kPermission, "there is no token in " + token_file);
  Form form = role_form(request);
  form.emplace_back("WebIdentityToken", std::move(text));
  return ask(context, request.settings, "AssumeRoleWithWebIdentity", std::move(form), nullptr, stop);
}

}  // namespace shardfs::s3
