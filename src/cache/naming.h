// Names of what lies in a cache folder: from an ObjectId to a hash, from a hash to a file name and back.
// Not the files themselves. Thread rule: pure functions and plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/object.h"

namespace shardfs::cache {

/// high: of the ObjectId alone, so that all sizes of one id lie side by side; low: of the ObjectId and the size.
struct ObjectHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const ObjectHash&, const ObjectHash&) = default;
};

ObjectHash hash_of(const store::ObjectId& id, uint64_t size_bytes);

/// 32 lower-case hexadecimal digits.
std::string to_hex(const ObjectHash& hash);
std::optional<ObjectHash> parse_hex(std::string_view text);

/// One cache file: what two mounts of one folder agree on.
struct FileKey {
  std::string name_space;
  ObjectHash hash;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};

/// "NAMESPACE/HASH".
std::string to_string(const FileKey& key);
std::optional<FileKey> parse_key(std::string_view text);

enum class FileKind { kData, kMap, kUnfinishedMap };

struct FileName {
  ObjectHash hash;
  FileKind kind = FileKind::kData;
};

std::string to_string(const FileName& name);
/// Nothing for a name that shardfs would not have made.
std::optional<FileName> parse_file_name(std::string_view name);

/// 1 to 64 characters out of [A-Za-z0-9._-], not beginning with a dot.
bool is_name_space(std::string_view name);

}  // namespace shardfs::cache
