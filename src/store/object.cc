#include "store/object.h"

#include <string_view>

namespace shardfs::store {
namespace {

std::string_view bare(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

}  // namespace

bool same_etag(const ETag& a, const ETag& b) { return bare(a) == bare(b); }

bool same_version(const ObjectInfo& a, const ObjectInfo& b) {
  if (a.size_bytes != b.size_bytes) return false;
  if (!a.etag.empty() && !b.etag.empty()) return same_etag(a.etag, b.etag);
  return a.last_modified == b.last_modified;
}

std::string version_of(const ObjectInfo& info) {
  if (const auto etag = bare(info.etag); !etag.empty()) return std::string(etag);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(info.last_modified.time_since_epoch()).count();
  return std::to_string(info.size_bytes) + "-" + std::to_string(seconds);
}

}  // namespace shardfs::store
