#include "teststore/message.h"

#include <strings.h>

#include <algorithm>
#include <array>

#include "teststore/text.h"

namespace shardfs::teststore {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {"get", "head", "list", "put", "delete", "other"};

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string_view name_of(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<Kind> kind_named(std::string_view name) {
  const auto* found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<Kind>(found - kKindNames.begin());
}

std::optional<std::string_view> Request::header(std::string_view name) const {
  for (const auto& [header, value] : headers) {
    if (same_name(header, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> Request::parameter(std::string_view name) const {
  for (const auto& [parameter, value] : query) {
    if (parameter == name) return value;
  }
  return std::nullopt;
}

std::string_view Request::access_key() const {
  const std::string_view authorization = header("authorization").value_or("");
  const size_t at = authorization.find("Credential=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = authorization.substr(at + 11);
  return rest.substr(0, rest.find('/'));
}

void address_request(Request& request) {
  request.query = parse_query(request.raw_query);
  std::string_view path = request.raw_path;
  if (path.starts_with('/')) path.remove_prefix(1);
  std::string_view host = request.header("host").value_or("");
  host = host.substr(0, host.rfind(':'));
  if (host.ends_with(".localhost")) {
    request.bucket = host.substr(0, host.size() - 10);
    request.key = percent_decode(path);
  } else {
    const size_t slash = path.find('/');
    request.bucket = percent_decode(path.substr(0, slash));
    request.key = slash == std::string_view::npos ? std::string() : percent_decode(path.substr(slash + 1));
  }
  const bool object = !request.key.empty();
  if (request.method == "GET") {
    const bool list = !object && !request.bucket.empty() && !request.parameter("location");
    request.kind = object ? Kind::kGet : list ? Kind::kList : Kind::kOther;
  } else if (request.method == "HEAD" && object) {
    request.kind = Kind::kHead;
  } else if (request.method == "PUT") {
    request.kind = Kind::kPut;
  } else if (request.method == "DELETE") {
    request.kind = Kind::kDelete;
  }
}

void Reply::set(std::string_view name, std::string value) {
  for (auto& [header, old] : headers) {
    if (same_name(header, name)) {
      old = std::move(value);
      return;
    }
  }
  headers.emplace_back(name, std::move(value));
}

bool Reply::has(std::string_view name) const {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) { return same_name(header.first, name); });
}

void Reply::remove(std::string_view name) {
  std::erase_if(headers, [&](const auto& header) { return same_name(header.first, name); });
}

Reply error_reply(unsigned status, std::string_view code, std::string_view message, std::string_view resource) {
  Reply reply;
  reply.status = status;
  reply.set("Content-Type", "application/xml");
  reply.text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + xml_escape(code) + "</Code><Message>" +
               xml_escape(message) + "</Message>";
  if (!resource.empty()) reply.text += "<Resource>" + xml_escape(resource) + "</Resource>";
  reply.text += "<RequestId>teststore</RequestId></Error>";
  return reply;
}

}  // namespace shardfs::teststore
