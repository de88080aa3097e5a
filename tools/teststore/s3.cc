#include "teststore/s3.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "teststore/listing.h"

namespace shardfs::teststore {
namespace {

struct ByteRange {
  enum class Is { kWhole, kPart, kUnsatisfiable } is = Is::kWhole;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// RFC 9110, 14.1.2. What is not one well-formed byte range is ignored, as S3 does.
ByteRange parse_range(std::optional<std::string_view> header, uint64_t size) {
  const ByteRange whole{ByteRange::Is::kWhole, 0, size};
  if (!header || !header->starts_with("bytes=")) return whole;
  const std::string_view spec = header->substr(6);
  const size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return whole;
  const auto first = number(spec.substr(0, dash));
  const auto last = number(spec.substr(dash + 1));
  if (dash == 0) {
    if (!last) return whole;
    if (*last == 0 || size == 0) return {ByteRange::Is::kUnsatisfiable, 0, 0};
    return {ByteRange::Is::kPart, size - std::min(*last, size), size};
  }
  if (!first || (!last && dash + 1 != spec.size()) || (last && *last < *first)) return whole;
  if (*first >= size) return {ByteRange::Is::kUnsatisfiable, 0, 0};
  return {ByteRange::Is::kPart, *first, last ? std::min(*last, size - 1) + 1 : size};
}

std::string_view unquoted(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') return etag.substr(1, etag.size() - 2);
  return etag;
}

// A list of ETags, quoted or not, or "*".
bool names_etag(std::string_view header, std::string_view etag) {
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    std::string_view one = header.substr(0, comma);
    header.remove_prefix(std::min(comma + 1, header.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one == "*" || unquoted(one) == unquoted(etag)) return true;
  }
  return false;
}

Reply no_such_bucket(const Request& request) {
  return error_reply(404, "NoSuchBucket", "The specified bucket does not exist", request.bucket);
}

bool is_archived(const Attributes& attributes) {
  const bool cold = attributes.storage_class == "GLACIER" || attributes.storage_class == "DEEP_ARCHIVE";
  return cold && attributes.restore.find("ongoing-request=\"false\"") == std::string::npos;
}

Reply object_reply(const Request& request, const ObjectPtr& object) {
  const Attributes& attributes = object->attributes;
  const auto if_match = request.header("if-match");
  if (if_match && !names_etag(*if_match, attributes.etag)) {
    return error_reply(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
  }
  Reply reply;
  reply.set("ETag", attributes.etag);
  reply.set("Last-Modified", http_date(attributes.last_modified));
  const auto if_none_match = request.header("if-none-match");
  if (if_none_match && names_etag(*if_none_match, attributes.etag)) {
    reply.status = 304;
    return reply;
  }
  if (request.kind == Kind::kGet && is_archived(attributes)) {
    return error_reply(403, "InvalidObjectState", "The operation is not valid for the object's storage class",
                       request.key);
  }
  reply.set("Accept-Ranges", "bytes");
  reply.set("Content-Type", attributes.content_type);
  if (!attributes.content_encoding.empty()) reply.set("Content-Encoding", attributes.content_encoding);
  if (attributes.storage_class != "STANDARD") reply.set("x-amz-storage-class", attributes.storage_class);
  if (!attributes.restore.empty()) reply.set("x-amz-restore", attributes.restore);
  const ByteRange range = parse_range(request.header("range"), object->size_bytes);
  if (range.is == ByteRange::Is::kUnsatisfiable) {
    Reply error = error_reply(416, "InvalidRange", "The requested range is not satisfiable", request.key);
    error.set("Content-Range", fmt::format("bytes */{}", object->size_bytes));
    return error;
  }
  if (range.is == ByteRange::Is::kPart) {
    reply.status = 206;
    reply.set("Content-Range", content_range(range.begin, range.end, object->size_bytes));
  }
  reply.object = object;
  reply.begin = range.begin;
  reply.end = range.end;
  return reply;
}

Reply list_reply(const Request& request, const Objects& objects, const S3Rules& rules) {
  auto query = parse_list_query(request, rules.max_keys);
  if (!query) return error_reply(400, "InvalidArgument", query.error().message);
  if (rules.ignore_v2 && query->v2) {
    query->v2 = false;
    query->start_after = request.parameter("marker").value_or("");
  }
  if (rules.ignore_encoding) query->encode_url = false;
  query->repeat_page = rules.repeat_page;
  query->reverse = rules.reverse;
  Page page;
  if (!objects.with_bucket(request.bucket, [&](const Bucket& bucket) { page = list_page(bucket, *query); })) {
    return no_such_bucket(request);
  }
  Reply reply;
  reply.set("Content-Type", "application/xml");
  reply.text = page_xml(page, *query);
  return reply;
}

Reply put_reply(Request& request, Objects& objects) {
  if (request.key.empty()) {
    objects.make_bucket(request.bucket);
    Reply reply;
    reply.set("Location", "/" + request.bucket);
    return reply;
  }
  if (!objects.has_bucket(request.bucket)) return no_such_bucket(request);
  if (request.key.size() > 1024) return error_reply(400, "KeyTooLongError", "Your key is too long", request.key);
  if (request.header("x-amz-copy-source") || request.parameter("uploads") || request.parameter("uploadId")) {
    return error_reply(501, "NotImplemented", "Only whole objects can be put here");
  }
  Attributes attributes;
  const auto text = [&](std::string_view name, std::string_view otherwise) {
    return std::string(request.header(name).value_or(otherwise));
  };
  attributes.content_type = text("content-type", attributes.content_type);
  attributes.content_encoding = text("content-encoding", "");
  attributes.storage_class = text("x-amz-storage-class", attributes.storage_class);
  Reply reply;
  reply.set("ETag", objects.put(request.bucket, request.key, std::move(request.body), std::move(attributes)));
  return reply;
}

Reply bucket_reply(const Request& request, const Objects& objects, const S3Rules& rules) {
  Reply reply;
  reply.set("Content-Type", "application/xml");
  if (request.bucket.empty()) {
    reply.text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListAllMyBucketsResult><Buckets>";
    for (const std::string& name : objects.buckets()) {
      reply.text += "<Bucket><Name>" + xml_escape(name) + "</Name></Bucket>";
    }
    reply.text += "</Buckets></ListAllMyBucketsResult>";
    return reply;
  }
  if (!objects.has_bucket(request.bucket)) return no_such_bucket(request);
  if (request.method == "HEAD") {
    reply.set("x-amz-bucket-region", rules.region);
    return reply;
  }
  // us-east-1 is named by an empty constraint.
  reply.text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint>" +
               (rules.region == "us-east-1" ? "" : xml_escape(rules.region)) + "</LocationConstraint>";
  return reply;
}

}  // namespace

std::string content_range(uint64_t begin, uint64_t end, uint64_t size) {
  return fmt::format("bytes {}-{}/{}", begin, end - 1, size);
}

AskedRange asked_range(const Request& request, const Objects& objects) {
  if (request.kind != Kind::kGet && request.kind != Kind::kHead) return {};
  const ObjectPtr object = objects.find(request.bucket, request.key);
  if (!object) return {};
  const ByteRange range = parse_range(request.header("range"), object->size_bytes);
  return {range.begin, range.end};
}

Reply answer(Request& request, Objects& objects, const S3Rules& rules) {
  switch (request.kind) {
    case Kind::kGet:
    case Kind::kHead: {
      if (const ObjectPtr object = objects.find(request.bucket, request.key)) return object_reply(request, object);
      if (!objects.has_bucket(request.bucket)) return no_such_bucket(request);
      return error_reply(404, "NoSuchKey", "The specified key does not exist.", request.key);
    }
    case Kind::kList: return list_reply(request, objects, rules);
    case Kind::kPut: return put_reply(request, objects);
    case Kind::kDelete: {
      if (!objects.has_bucket(request.bucket)) return no_such_bucket(request);
      objects.remove(request.bucket, request.key);
      Reply reply;
      reply.status = 204;
      return reply;
    }
    case Kind::kOther:
      if (request.method == "GET" || request.method == "HEAD") return bucket_reply(request, objects, rules);
      return error_reply(405, "MethodNotAllowed", "The specified method is not allowed against this resource.");
  }
  return error_reply(500, "InternalError", "unreachable");
}

}  // namespace shardfs::teststore
