#include "cache/naming.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>

namespace shardfs::cache {
namespace {

constexpr uint64_t kSizeSeed = 0x73686172646673;  // "shardfs": keeps both halves independent

void append(std::string& to, std::string_view part) {
  to += fmt::format("{}:", part.size());
  to += part;
}

std::optional<uint64_t> parse_half(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view suffix_of(FileKind kind) {
  switch (kind) {
    case FileKind::kData: return ".data";
    case FileKind::kMap: return ".map";
    case FileKind::kUnfinishedMap: return ".map.tmp";
  }
  return {};
}

}  // namespace

ObjectHash hash_of(const store::ObjectId& id, uint64_t size_bytes) {
  std::string text;
  text.reserve(id.endpoint.size() + id.bucket.size() + id.key.size() + id.version.size() + 64);
  append(text, id.endpoint);
  append(text, id.bucket);
  append(text, id.key);
  append(text, id.version);
  const uint64_t high = XXH3_64bits(text.data(), text.size());
  append(text, std::to_string(size_bytes));
  return {high, XXH3_64bits_withSeed(text.data(), text.size(), kSizeSeed)};
}

std::string to_hex(const ObjectHash& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

std::optional<ObjectHash> parse_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = parse_half(text.substr(0, 16));
  const auto low = parse_half(text.substr(16));
  if (!high || !low) return std::nullopt;
  return ObjectHash{*high, *low};
}

std::string to_string(const FileKey& key) { return key.name_space + "/" + to_hex(key.hash); }

std::optional<FileKey> parse_key(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || !is_name_space(text.substr(0, slash))) return std::nullopt;
  const auto hash = parse_hex(text.substr(slash + 1));
  if (!hash) return std::nullopt;
  return FileKey{std::string(text.substr(0, slash)), *hash};
}

std::string to_string(const FileName& name) { return to_hex(name.hash).append(suffix_of(name.kind)); }

std::optional<FileName> parse_file_name(std::string_view name) {
  if (name.size() < 32) return std::nullopt;
  const auto hash = parse_hex(name.substr(0, 32));
  if (!hash) return std::nullopt;
  for (const auto kind : {FileKind::kData, FileKind::kMap, FileKind::kUnfinishedMap}) {
    if (name.substr(32) == suffix_of(kind)) return FileName{*hash, kind};
  }
  return std::nullopt;
}

bool is_name_space(std::string_view name) {
  if (name.empty() || name.size() > 64 || name.front() == '.') return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

}  // namespace shardfs::cache
