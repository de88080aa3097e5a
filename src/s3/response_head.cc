#include "s3/response_head.h"

#include <algorithm>
#include <charconv>

#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

const std::string kEmpty;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == '\n')) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace

void ResponseHead::clear() {
  status_ = 0;
  headers_.clear();
}

void ResponseHead::add_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    clear();
    const auto space = line.find(' ');
    if (space == std::string_view::npos || space + 4 > line.size()) return;
    if (const auto status = whole_number(line.substr(space + 1, 3))) status_ = static_cast<int>(*status);
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(trim(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  headers_.emplace_back(std::move(name), trim(line.substr(colon + 1)));
}

const std::string& ResponseHead::header(std::string_view name) const {
  for (const auto& [have, value] : headers_) {
    if (have == name) return value;
  }
  return kEmpty;
}

std::optional<uint64_t> ResponseHead::content_length() const { return whole_number(header("content-length")); }

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (text.size() < 6 || !(text.starts_with("bytes ") || text.starts_with("Bytes "))) return std::nullopt;
  text = trim(text.substr(6));
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ContentRange out;
  const auto size = text.substr(slash + 1);
  if (size != "*") {
    out.size_bytes = whole_number(size);
    if (!out.size_bytes) return std::nullopt;
  }
  const auto range = text.substr(0, slash);
  if (range == "*") return out;
  const auto dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = whole_number(range.substr(0, dash)), last = whole_number(range.substr(dash + 1));
  if (!first || !last || *last < *first || *last == UINT64_MAX) return std::nullopt;
  out.range = {*first, *last + 1};
  return out;
}

bool is_archive_class(std::string_view storage_class) {
  return storage_class == "GLACIER" || storage_class == "DEEP_ARCHIVE";
}

store::ObjectInfo object_info_of(const ResponseHead& head, const std::string& key, uint64_t size_bytes) {
  store::ObjectInfo out;
  out.key = key;
  out.size_bytes = size_bytes;
  out.etag = head.header("etag");
  if (const auto time = parse_http_time(head.header("last-modified"))) out.last_modified = *time;
  if (const auto& storage = head.header("x-amz-storage-class"); storage != "STANDARD") out.storage_class = storage;
  // A restored copy reads like any object until it expires; so does an archive tier that was brought back.
  const bool restored = head.header("x-amz-restore").find("ongoing-request=\"false\"") != std::string::npos;
  out.archived = !restored && (is_archive_class(out.storage_class) || head.has("x-amz-archive-status"));
  return out;
}

}  // namespace shardfs::s3
