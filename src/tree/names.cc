#include "tree/names.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace shardfs::tree {
namespace {

/// Odd keys of one page that are named in the log. Source: enough to find the cause; a million lines help nobody.
constexpr size_t kNamedOddKeys = 8;

const char* why(PartKind kind) {
  switch (kind) {
    case PartKind::kGood: return "good";
    case PartKind::kEmpty: return "it has an empty path part";
    case PartKind::kDots: return "it has \".\" or \"..\" as a path part";
    case PartKind::kTooLong: return "it has a path part of more than 255 bytes";
    case PartKind::kBadByte: return "it has a zero byte in a path part";
  }
  return "it can't be a file name";
}

class PageReader {
 public:
  PageReader(std::string_view prefix, PageNames& out) : prefix_(prefix), out_(out) {}

  void object(store::ObjectInfo& info) {
    note(info.key);
    if (!info.key.starts_with(prefix_)) return leave_out(info.key, "it is not below the prefix that was asked for");
    const std::string_view rest = std::string_view(info.key).substr(prefix_.size());
    if (rest.empty()) return;  // the marker of the directory itself
    const size_t slash = rest.find('/');
    if (slash != std::string_view::npos) return directory(info.key, rest.substr(0, slash));  // delimiter ignored
    if (const PartKind kind = check_part(rest); kind != PartKind::kGood) return leave_out(info.key, why(kind));
    out_.names.push_back(ListedName{std::string(rest), Kind::kFile, info.size_bytes, to_seconds(info.last_modified),
                                    std::move(info.etag)});
  }

  void prefix(std::string_view full) {
    note(full);
    if (!full.starts_with(prefix_)) return leave_out(full, "it is not below the prefix that was asked for");
    const std::string_view rest = full.substr(prefix_.size());
    directory(full, rest.substr(0, rest.find('/')));
  }

 private:
  void directory(std::string_view full, std::string_view part) {
    if (const PartKind kind = check_part(part); kind != PartKind::kGood) return leave_out(full, why(kind));
    out_.names.push_back(ListedName{std::string(part), Kind::kDirectory, 0, {}, {}});
  }

  void note(std::string_view key) {
    ++out_.raw;
    if (key > out_.last_key) out_.last_key = key;
  }

  void leave_out(std::string_view full, const char* reason) {
    if (++out_.odd > kNamedOddKeys) {
      base::warn_once(std::string("tree: more odd keys below ").append(prefix_),
                      "more keys below \"{}\" are left out, unnamed here: they can't be file names", prefix_);
      return;
    }
    base::warn_once(std::string("tree: odd key ").append(full), "the key \"{}\" is left out: {}", full, reason);
  }

  std::string_view prefix_;
  PageNames& out_;
};

bool before(const ListedName& a, const ListedName& b) {
  if (const int order = a.name.compare(b.name); order != 0) return order < 0;
  return a.kind < b.kind;  // the directory first
}

}  // namespace

PartKind check_part(std::string_view part) {
  if (part.empty()) return PartKind::kEmpty;
  if (part == "." || part == "..") return PartKind::kDots;
  if (part.size() > kNameBytesLimit) return PartKind::kTooLong;
  if (part.find_first_of(std::string_view("\0/", 2)) != std::string_view::npos) return PartKind::kBadByte;
  return PartKind::kGood;
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path.append(directory);
  if (!directory.empty()) path.push_back('/');
  return path.append(name);
}

bool is_at_or_below(std::string_view path, std::string_view above) {
  if (above.empty() || path == above) return true;
  return path.size() > above.size() && path.starts_with(above) && path[above.size()] == '/';
}

std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

PageNames names_of_page(std::string_view directory_prefix, store::ListPage page) {
  PageNames out;
  out.names.reserve(page.objects.size() + page.prefixes.size());
  PageReader reader(directory_prefix, out);
  for (auto& object : page.objects) reader.object(object);
  for (const auto& prefix : page.prefixes) reader.prefix(prefix);
  if (!std::is_sorted(out.names.begin(), out.names.end(), before)) {
    std::sort(out.names.begin(), out.names.end(), before);
  }
  const auto end = std::unique(out.names.begin(), out.names.end(), [&](const ListedName& kept, const ListedName& next) {
    if (kept.name != next.name) return false;
    if (kept.kind != next.kind) warn_key_and_prefix(std::string(directory_prefix) + kept.name);
    return true;
  });
  out.names.erase(end, out.names.end());
  return out;
}

void warn_key_and_prefix(std::string_view path_in_bucket) {
  base::warn_once(std::string("tree: key and prefix ").append(path_in_bucket),
                  "\"{}\" is a key and also a prefix of keys: it is shown as a directory, the object is hidden",
                  path_in_bucket);
}

base::WallTime to_seconds(base::WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); }

uint64_t stable_inode_number(std::string_view path, std::string_view version) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto eat = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const char c : path) eat(static_cast<unsigned char>(c));
  eat(0);
  for (const char c : version) eat(static_cast<unsigned char>(c));
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  hash ^= hash >> 31;
  return hash > kRootNode ? hash : hash + 2;
}

}  // namespace shardfs::tree
