// Names: what a key becomes within a directory, and the numbers that stand for names and versions.
// Not a decoder: keys arrive as plain bytes.
// Thread rule: pure functions, except that names_of_page warns (base::warn_once).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/object_store.h"
#include "tree/tree.h"

namespace shardfs::tree {

/// Source: NAME_MAX of Linux, which the kernel enforces for FUSE too (FUSE_NAME_MAX is larger, but tools trust 255).
inline constexpr size_t kNameBytesLimit = 255;
/// Source: the longest key of S3, in bytes of UTF-8.
inline constexpr size_t kKeyBytesLimit = 1024;

enum class PartKind : uint8_t {
  kGood,
  kEmpty,
  kDots,  // "." or ".."
  kTooLong,
  kBadByte,  // NUL or '/'
};
PartKind check_part(std::string_view part);

/// "dir" + "name" -> "dir/name"; "" is the root.
std::string join_path(std::string_view directory, std::string_view name);

/// "a/b/c" -> "a/b" and "c".
std::pair<std::string_view, std::string_view> split_path(std::string_view path);

/// "a/b" is at or below "a/b", "a" and "".
bool is_at_or_below(std::string_view path, std::string_view above);

/// One page as names below directory_prefix: sorted by bytes, each once, a directory before a file of the same name.
struct PageNames {
  std::vector<ListedName> names;
  size_t odd = 0;        // entries left out; each is named in a warning, a few of them in each directory
  size_t raw = 0;        // objects and prefixes on the page, markers and odd ones included
  std::string last_key;  // the greatest key or prefix on the page; empty if there is none
};
PageNames names_of_page(std::string_view directory_prefix, store::ListPage page);

/// Says once that this is a key and a prefix, and is shown as a directory.
void warn_key_and_prefix(std::string_view path_in_bucket);

/// Last-Modified to the second: HEAD and GET say no more than that, and both must give a file one time.
base::WallTime to_seconds(base::WallTime time);

/// A number for (path, version) that is the same on every machine and at every mount: FNV-1a over both with a zero
/// byte between, then the finisher of splitmix64. Never 0 or 1. Directories: version is empty.
uint64_t stable_inode_number(std::string_view path, std::string_view version);

}  // namespace shardfs::tree
