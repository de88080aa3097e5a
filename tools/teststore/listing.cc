#include "teststore/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "teststore/text.h"

namespace shardfs::teststore {
namespace {

// A token is the last entry of its page, kept unreadable so that no client comes to rely on it.
std::string make_token(std::string_view last) {
  std::string bytes = "1" + std::string(last);
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ (0x5a + i));
  return base64_encode(bytes);
}

std::optional<std::string> read_token(std::string_view token) {
  auto bytes = base64_decode(token);
  if (!bytes || bytes->empty() || bytes->front() != '1') return std::nullopt;
  for (size_t i = 1; i < bytes->size(); ++i) (*bytes)[i] = static_cast<char>((*bytes)[i] ^ (0x5a + i));
  return bytes->substr(1);
}

// The first key in byte order that does not start with `prefix`; end() when all later ones do.
Bucket::const_iterator after_prefix(const Bucket& bucket, std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return bucket.end();
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return bucket.lower_bound(prefix);
}

// The common prefix that rolls `key` up, or empty.
std::string_view rolled_up(std::string_view key, const ListQuery& query) {
  if (query.delimiter.empty()) return {};
  const size_t at = key.find(query.delimiter, query.prefix.size());
  return at == std::string_view::npos ? std::string_view() : key.substr(0, at + query.delimiter.size());
}

Bucket::const_iterator first_entry(const Bucket& bucket, const ListQuery& query) {
  const std::string& after = query.v2 && !query.continuation.empty() ? query.continuation : query.start_after;
  if (after.empty() || after < query.prefix) return bucket.lower_bound(query.prefix);
  // A token or a V1 marker may be a common prefix: all that it stands for was listed.
  const bool may_be_prefix = !query.v2 || !query.continuation.empty();
  if (may_be_prefix && after.starts_with(query.prefix) && rolled_up(after, query) == after) {
    return after_prefix(bucket, after);
  }
  return bucket.upper_bound(after);
}

}  // namespace

base::Result<ListQuery> parse_list_query(const Request& request, uint32_t max_keys_limit) {
  ListQuery query;
  const auto text = [&](std::string_view name) { return std::string(request.parameter(name).value_or("")); };
  query.v2 = request.parameter("list-type") == "2";
  query.bucket = request.bucket;
  query.prefix = text("prefix");
  query.delimiter = text("delimiter");
  query.start_after = text(query.v2 ? "start-after" : "marker");
  const std::string encoding = text("encoding-type");
  if (!encoding.empty() && encoding != "url") return base::fail(base::Code::kInvalid, "Invalid Encoding Method");
  query.encode_url = encoding == "url";
  query.max_keys = max_keys_limit;
  if (const std::string limit = text("max-keys"); !limit.empty()) {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), value);
    if (error != std::errc() || end != limit.data() + limit.size()) {
      return base::fail(base::Code::kInvalid, "max-keys is not a number");
    }
    query.max_keys = std::min(value, max_keys_limit);
  }
  if (query.v2 && request.parameter("continuation-token")) {
    const auto after = read_token(*request.parameter("continuation-token"));
    if (!after) return base::fail(base::Code::kInvalid, "The continuation token provided is incorrect");
    query.continuation = *after;
  }
  return query;
}

Page list_page(const Bucket& bucket, const ListQuery& query) {
  Page page;
  if (query.max_keys == 0) return page;
  auto at = first_entry(bucket, query);
  while (at != bucket.end() && at->first.starts_with(query.prefix)) {
    if (page.objects.size() + page.prefixes.size() == query.max_keys) {
      page.truncated = true;
      break;
    }
    if (const std::string_view prefix = rolled_up(at->first, query); !prefix.empty()) {
      page.prefixes.emplace_back(prefix);
      page.last = page.prefixes.back();
      at = after_prefix(bucket, page.last);
    } else {
      page.objects.emplace_back(at->first, at->second);
      page.last = at->first;
      ++at;
    }
  }
  if (query.reverse) {
    std::reverse(page.objects.begin(), page.objects.end());
    std::reverse(page.prefixes.begin(), page.prefixes.end());
  }
  return page;
}

std::string page_xml(const Page& page, const ListQuery& query) {
  const auto coded = [&](std::string_view text) { return query.encode_url ? listing_encode(text) : xml_escape(text); };
  std::string xml =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  const auto element = [&](std::string_view name, std::string_view value) {
    xml.append("<").append(name).append(">").append(value).append("</").append(name).append(">");
  };
  element("Name", xml_escape(query.bucket));
  element("Prefix", coded(query.prefix));
  if (!query.delimiter.empty()) element("Delimiter", coded(query.delimiter));
  element("MaxKeys", std::to_string(query.max_keys));
  if (query.encode_url) element("EncodingType", "url");
  element("IsTruncated", page.truncated ? "true" : "false");
  if (query.v2) {
    element("KeyCount", std::to_string(page.objects.size() + page.prefixes.size()));
    if (!query.continuation.empty()) element("ContinuationToken", make_token(query.continuation));
    if (!query.start_after.empty()) element("StartAfter", coded(query.start_after));
    if (page.truncated) {
      element("NextContinuationToken", make_token(query.repeat_page ? query.continuation : page.last));
    }
  } else {
    element("Marker", coded(query.start_after));
    // As S3: without a delimiter there is no NextMarker, the last key is the next marker.
    if (page.truncated && !query.delimiter.empty()) {
      element("NextMarker", coded(query.repeat_page ? query.start_after : page.last));
    }
  }
  for (const auto& [key, object] : page.objects) {
    const Attributes& attributes = object->attributes;
    xml += "<Contents>";
    element("Key", coded(key));
    element("LastModified", iso_time(attributes.last_modified));
    element("ETag", xml_escape(attributes.etag));
    element("Size", std::to_string(object->size_bytes));
    element("StorageClass", attributes.storage_class);
    xml += "</Contents>";
  }
  for (const std::string& prefix : page.prefixes) {
    xml += "<CommonPrefixes>";
    element("Prefix", coded(prefix));
    xml += "</CommonPrefixes>";
  }
  xml += "</ListBucketResult>";
  return xml;
}

}  // namespace shardfs::teststore
