#include "s3/list_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <pugixml.hpp>

#include "s3/response_head.h"
#include "s3/timestamps.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;

// Line ends and blanks are part of a key, and a key may be one blank.
constexpr unsigned kParseFlags = pugi::parse_escapes | pugi::parse_cdata | pugi::parse_ws_pcdata_single;

struct Decoder {
  bool encoded = false;
  std::string operator()(const char* text) const { return encoded ? percent_decode(text, true) : std::string(text); }
};

base::Result<store::ObjectInfo> object_of(const pugi::xml_node& contents, const Decoder& decode) {
  store::ObjectInfo out;
  bool has_key = false, has_size = false;
  for (const auto& field : contents) {
    const char* name = field.name();
    const char* text = field.child_value();
    if (std::strcmp(name, "Key") == 0) {
      out.key = decode(text);
      has_key = true;
    } else if (std::strcmp(name, "Size") == 0) {
      const char* end = text + std::strlen(text);
      const auto [stop, error] = std::from_chars(text, end, out.size_bytes);
      has_size = error == std::errc{} && stop == end;
    } else if (std::strcmp(name, "ETag") == 0) {
      out.etag = text;
    } else if (std::strcmp(name, "LastModified") == 0) {
      if (const auto time = parse_iso_time(text)) out.last_modified = *time;
    } else if (std::strcmp(name, "StorageClass") == 0) {
      if (std::strcmp(text, "STANDARD") != 0) out.storage_class = text;
      out.archived = is_archive_class(text);
    }
  }
  if (!has_key || !has_size) return fail(Code::kIntegrity, "a listed object has no key or no size");
  return out;
}

}  // namespace

std::string ParsedPage::last_name() const {
  std::string out;
  for (const auto& object : objects) out = std::max(out, object.key);
  for (const auto& prefix : prefixes) out = std::max(out, prefix);
  return out;
}

base::Result<ParsedPage> parse_list_page(std::string xml) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer_inplace(xml.data(), xml.size(), kParseFlags, pugi::encoding_utf8);
  if (!parsed) {
    return fail(Code::kIntegrity,
                fmt::format("the listing is no XML: {} at byte {}", parsed.description(), parsed.offset));
  }
  const auto root = document.child("ListBucketResult");
  if (!root) {
    return fail(Code::kIntegrity,
                fmt::format("the listing is a {:.40}, not a ListBucketResult", document.document_element().name()));
  }
  const Decoder decode{std::strcmp(root.child_value("EncodingType"), "url") == 0};
  ParsedPage out;
  bool has_key_count = false, has_marker = false;
  for (const auto& node : root) {
    const char* name = node.name();
    if (std::strcmp(name, "Contents") == 0) {
      auto object = object_of(node, decode);
      if (!object) return tl::unexpected(object.error());
      out.objects.push_back(std::move(*object));
    } else if (std::strcmp(name, "CommonPrefixes") == 0) {
      out.prefixes.push_back(decode(node.child_value("Prefix")));
    } else if (std::strcmp(name, "IsTruncated") == 0) {
      out.truncated = std::strcmp(node.child_value(), "true") == 0;
    } else if (std::strcmp(name, "NextContinuationToken") == 0) {
      out.next_token = node.child_value();
    } else if (std::strcmp(name, "NextMarker") == 0) {
      out.next_marker = decode(node.child_value());
    } else if (std::strcmp(name, "KeyCount") == 0) {
      has_key_count = true;
    } else if (std::strcmp(name, "Marker") == 0) {
      has_marker = true;
    }
  }
  out.version_1 = has_marker && !has_key_count && out.next_token.empty();
  return out;
}

}  // namespace shardfs::s3
