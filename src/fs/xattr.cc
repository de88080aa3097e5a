#include "fs/xattr.h"

namespace shardfs::fs {
namespace {

constexpr std::string_view kPrefix = "user.shardfs.";
constexpr std::string_view kKey = "user.shardfs.key";
constexpr std::string_view kETag = "user.shardfs.etag";
constexpr std::string_view kCachedBytes = "user.shardfs.cached_bytes";
constexpr std::string_view kState = "user.shardfs.state";

}  // namespace

bool is_own_attribute(std::string_view name) { return name.starts_with(kPrefix); }

bool needs_source(std::string_view name) { return name == kCachedBytes || name == kState; }

base::Result<std::string> attribute_value(std::string_view name, const tree::Node& node, fetch::SourceFile* source,
                                          const std::string& directory_key) {
  if (node.kind == tree::Kind::kDirectory) {
    if (name == kKey) return directory_key;
  } else {
    if (name == kKey) return node.info.key;
    if (name == kETag) return node.info.etag;
    if (name == kCachedBytes) return std::to_string(source == nullptr ? 0 : source->cached_bytes());
    if (name == kState) return source == nullptr ? "empty" : source->state();
  }
  return base::fail(base::Code::kNoAttribute, "no extended attribute " + std::string(name));
}

std::vector<std::string> attribute_names(const tree::Node& node) {
  if (node.kind == tree::Kind::kDirectory) return {std::string(kKey)};
  return {std::string(kKey), std::string(kETag), std::string(kCachedBytes), std::string(kState)};
}

}  // namespace shardfs::fs
