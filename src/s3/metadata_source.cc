#include <fmt/format.h>

#include "s3/credential_sources.h"
#include "s3/error_mapping.h"
#include "s3/http_call.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

// Source: the address answers within a few ms where it exists; where it doesn't, packets are often swallowed.
constexpr std::chrono::seconds kLimit{1};
constexpr const char* kRoles = "/latest/meta-data/iam/security-credentials/";

class MetadataSource final : public CredentialsSource {
 public:
  explicit MetadataSource(SourceContext context) : context_(std::move(context)) {}

  Loaded load(const StopSignal& stop) override {
    const auto disabled = context_.environment("AWS_EC2_METADATA_DISABLED");
    if (disabled && (*disabled == "true" || *disabled == "TRUE" || *disabled == "True")) {
      return std::optional<Credentials>();
    }
    const auto token =
        ask({address() + "/latest/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds: 300"}}, stop);
    if (!token) return tl::unexpected(token.error());
    const std::string header = "X-aws-ec2-metadata-token: " + *token;
    auto role = ask({address() + kRoles, "GET", {header}}, stop);
    if (!role) return tl::unexpected(std::move(role.error()));
    *role = role->substr(0, role->find_first_of("\r\n"));
    if (role->empty()) return fail(Code::kPermission, "this instance has no role");
    const auto keys = ask({address() + kRoles + percent_encode(*role, false), "GET", {header}}, stop);
    if (!keys) return tl::unexpected(keys.error());
    auto loaded = parse_credentials(*keys, "instance metadata");
    if (!loaded) return tl::unexpected(std::move(loaded.error()));
    loaded->source = fmt::format("instance metadata, role {}", printable(*role));
    return std::optional(std::move(*loaded));
  }
  std::string name() const override { return "instance metadata"; }

 private:
  std::string address() const {
    auto out = context_.environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("");
    while (out.ends_with('/')) out.pop_back();
    if (!out.empty()) return out;
    const auto mode = context_.environment("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    return mode && (*mode == "IPv6" || *mode == "ipv6") ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
  }

  static Result<std::string> ask(HttpCall call, const StopSignal& stop) {
    call.limit = kLimit;
    call.direct = true;
    const auto answer = http_call(call, stop);
    if (!answer) return tl::unexpected(answer.error());
    const int status = answer->head.status();
    if (status == 200) return answer->body;
    if (status == 404) return fail(Code::kPermission, "this instance has no role");
    return fail(status >= 500 ? Code::kTransient : Code::kPermission, fmt::format("{}: answer {}", call.url, status));
  }

  const SourceContext context_;
};

}  // namespace

std::unique_ptr<CredentialsSource> metadata_source(SourceContext context) {
  return std::make_unique<MetadataSource>(std::move(context));
}

}  // namespace shardfs::s3
