#include <fmt/format.h>

#include <algorithm>

#include "s3/credential_sources.h"
#include "s3/error_mapping.h"
#include "s3/http_call.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

// Source: the address is on this machine.
constexpr std::chrono::seconds kLimit{2};

/// Without TLS keys may only come from this machine, or from the two addresses of the container services.
bool may_be_plain(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.") || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

class ContainerSource final : public CredentialsSource {
 public:
  ContainerSource(SourceContext context, std::string local_address)
      : context_(std::move(context)), local_address_(std::move(local_address)) {}

  Loaded load(const StopSignal& stop) override {
    HttpCall call;
    call.limit = kLimit;
    call.ca_file = context_.ca_file;
    call.ca_folder = context_.ca_folder;
    if (const auto path = context_.environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
      if (!path->starts_with('/')) {
        return fail(Code::kPermission, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a slash");
      }
      call.url = local_address_ + *path;
      call.direct = true;
    } else if (const auto url = context_.environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
      const auto endpoint = parse_endpoint(std::string_view(*url).substr(0, url->find('?')));
      if (!endpoint) return fail(Code::kPermission, "AWS_CONTAINER_CREDENTIALS_FULL_URI is no address");
      if (endpoint->scheme == "http" && !may_be_plain(endpoint->host)) {
        return fail(Code::kPermission, "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor on this machine");
      }
      call.url = *url;
      call.direct = endpoint->scheme == "http";
    } else {
      return std::optional<Credentials>();
    }
    if (auto added = add_authorization(call); !added) return tl::unexpected(std::move(added.error()));
    const auto answer = http_call(call, stop);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->head.status() != 200) {
      return fail(answer->head.status() >= 500 ? Code::kTransient : Code::kPermission,
                  fmt::format("the container's credentials: answer {}", answer->head.status()));
    }
    auto loaded = parse_credentials(answer->body, "the container's address");
    if (!loaded) return tl::unexpected(std::move(loaded.error()));
    loaded->source = name();
    return std::optional(std::move(*loaded));
  }
  std::string name() const override { return "container"; }

 private:
  Result<void> add_authorization(HttpCall& call) const {
    std::string token = context_.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
    if (const auto file = context_.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
      auto text = read_file(*file);
      if (!text) return tl::unexpected(std::move(text.error()));
      if (!text->has_value()) return fail(Code::kPermission, fmt::format("there is no {}", *file));
      token = **text;
      while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
    }
    if (token.empty()) return {};
    if (token.find_first_of("\r\n") != std::string::npos) {
      return fail(Code::kPermission, "the container's authorization token has more than one line");
    }
    call.headers.push_back("Authorization: " + token);
    return {};
  }

  const SourceContext context_;
  const std::string local_address_;
};

}  // namespace

std::unique_ptr<CredentialsSource> container_source(SourceContext context, std::string local_address) {
  return std::make_unique<ContainerSource>(std::move(context), std::move(local_address));
}

}  // namespace shardfs::s3
