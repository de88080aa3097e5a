#include "cache/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

constexpr std::string_view kMarkerHead = "shardfs cache folder\nformat ";
constexpr std::string_view kUnfinishedMarker = "SHARDFS.tmp";

Result<void> read_marker(base::Disk& disk, const Folder& folder) {
  const auto foreign = [&] {
    return base::fail(Code::kInvalid, "cache folder " + folder.path() + ": its SHARDFS file is not shardfs's");
  };
  auto fd = disk.open(folder.marker_path(), O_RDONLY);
  if (!fd) return tl::unexpected(fd.error());
  const auto stat = disk.stat(fd->get());
  if (!stat) return tl::unexpected(stat.error());
  std::array<char, 128> text;
  const size_t size = std::min<uint64_t>(stat->size_bytes, text.size());
  if (auto got = disk.read_at(fd->get(), std::as_writable_bytes(std::span(text.data(), size)), 0); !got) return got;
  std::string_view rest(text.data(), size);
  if (!rest.starts_with(kMarkerHead)) return foreign();
  rest.remove_prefix(kMarkerHead.size());
  uint32_t version = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), version).ec != std::errc() || version == 0) {
    return foreign();
  }
  if (version > kFormatVersion) {
    return base::fail(Code::kInvalid, fmt::format("cache folder {}: format {} was made by a newer shardfs (this one "
                                                  "knows up to {}); use another folder",
                                                  folder.path(), version, kFormatVersion));
  }
  return {};
}

Result<void> write_marker(base::Disk& disk, const Folder& folder) {
  const std::string unfinished = folder.path() + "/" + std::string(kUnfinishedMarker);
  auto fd = disk.open(unfinished, O_WRONLY | O_CREAT);
  if (!fd) return tl::unexpected(fd.error());
  const std::string text = fmt::format("{}{}\n", kMarkerHead, kFormatVersion);
  if (auto put = disk.write_at(fd->get(), std::as_bytes(std::span(text)), 0); !put) return put;
  if (auto synced = disk.sync(fd->get()); !synced) return synced;
  auto renamed = disk.rename(unfinished, folder.marker_path());
  // Two mounts that start at once write the same text; the slower one finds its name taken away.
  if (!renamed && renamed.error().code == Code::kNotFound && disk.stat(folder.marker_path())) return {};
  if (!renamed) return renamed;
  return disk.sync_directory(folder.path());
}

Result<void> set_mode(const std::string& path) {
  if (::chmod(path.c_str(), 0700) == 0) return {};
  return base::fail_errno(Code::kCacheIo, "mode of cache folder " + path, errno);
}

}  // namespace

Result<Folder> Folder::open(base::Disk& disk, const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return base::fail(Code::kInvalid, "cache folder '" + path + "': not an absolute path");
  }
  Folder folder(path);
  if (auto made = disk.make_directories(path); !made) {
    return base::fail(Code::kCacheIo, "cache folder: " + made.error().message, made.error().sys_errno);
  }
  const auto stat = disk.stat(path);
  if (!stat) return tl::unexpected(stat.error());
  if (stat->uid != ::geteuid()) {
    return base::fail(Code::kInvalid,
                      fmt::format("cache folder {} belongs to uid {}, not to {}: a cache is shared only "
                                  "between mounts of one user",
                                  path, stat->uid, ::geteuid()));
  }
  const auto names = disk.list(path);
  if (!names) return tl::unexpected(names.error());
  const bool marked = std::find(names->begin(), names->end(), "SHARDFS") != names->end();
  const bool empty = std::all_of(names->begin(), names->end(), [](const std::string& name) {
    return name == kUnfinishedMarker || name == "lost+found";  // the latter: the root of a file system of its own
  });
  if (!marked && !empty) {
    return base::fail(Code::kInvalid,
                      "cache folder " + path + " holds other files and no SHARDFS marker: give an empty folder");
  }
  if ((stat->mode & 077) != 0 || (stat->mode & 0700) != 0700) {
    if (auto set = set_mode(path); !set) return tl::unexpected(set.error());
  }
  if (!marked) {
    if (auto put = write_marker(disk, folder); !put) return tl::unexpected(put.error());
  }
  if (auto known = read_marker(disk, folder); !known) return tl::unexpected(known.error());
  if (auto made = disk.make_directories(folder.objects_path()); !made) return tl::unexpected(made.error());
  return folder;
}

std::string Folder::directory_of(const FileKey& key) const {
  return fmt::format("{}/objects/{}/{:02x}", path_, key.name_space, key.hash.high >> 56);
}

std::string Folder::path_of(const FileKey& key, FileKind kind) const {
  return directory_of(key) + "/" + to_string(FileName{key.hash, kind});
}

Result<void> walk(base::Disk& disk, const Folder& folder, const std::function<void(const std::string&)>& at_directory,
                  const std::function<void(const FoundFile&)>& at_file) {
  const auto spaces = disk.list(folder.objects_path());
  if (!spaces) return tl::unexpected(spaces.error());
  for (const auto& name_space : *spaces) {
    if (!is_name_space(name_space)) continue;
    const std::string space_path = folder.objects_path() + "/" + name_space;
    const auto directories = disk.list(space_path);
    if (!directories) continue;
    at_directory(space_path);
    for (const auto& directory : *directories) {
      const std::string path = space_path + "/" + directory;
      const auto names = directory.size() == 2 ? disk.list(path) : Result<std::vector<std::string>>();
      if (directory.size() != 2 || !names) continue;
      at_directory(path);
      std::map<ObjectHash, FoundFile> found;
      for (const auto& text : *names) {
        const auto name = parse_file_name(text);
        if (!name || fmt::format("{:02x}", name->hash.high >> 56) != directory) continue;
        auto& file = found[name->hash];
        file.key = {name_space, name->hash};
        file.data |= name->kind == FileKind::kData;
        file.map |= name->kind == FileKind::kMap;
        file.unfinished_map |= name->kind == FileKind::kUnfinishedMap;
      }
      for (const auto& [hash, file] : found) at_file(file);
    }
  }
  return {};
}

}  // namespace shardfs::cache
