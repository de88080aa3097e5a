// Folder: the layout of a cache folder, its marker, and who may use it.
// Not what lies in its files. It never removes anything; a folder that shardfs did not make is refused.
// Thread rule: thread-safe (constant after open).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/disk.h"
#include "base/error.h"
#include "cache/naming.h"

namespace shardfs::cache {

/// The version of everything in the folder; a folder with a newer one is refused.
inline constexpr uint32_t kFormatVersion = 1;

class Folder {
 public:
  /// Makes the folder and its marker if needed, and sets mode 0700. Errors: kInvalid (a path that is not absolute,
  /// neither empty nor marked, foreign owner, newer format), kCacheIo, kCacheFull.
  static base::Result<Folder> open(base::Disk& disk, const std::string& path);

  const std::string& path() const { return path_; }
  std::string marker_path() const { return path_ + "/SHARDFS"; }
  std::string budget_path() const { return path_ + "/budget"; }
  std::string index_path() const { return path_ + "/index.db"; }
  std::string objects_path() const { return path_ + "/objects"; }
  /// objects/NAMESPACE/ab
  std::string directory_of(const FileKey& key) const;
  std::string path_of(const FileKey& key, FileKind kind) const;

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// What a walk finds under one hash.
struct FoundFile {
  FileKey key;
  bool data = false;
  bool map = false;
  bool unfinished_map = false;
};

/// Calls for every hash under objects/; foreign names are passed over. at_directory: each of our directories, first.
/// Errors: kCacheIo if objects/ itself can't be listed; directories that vanish meanwhile are passed over.
base::Result<void> walk(base::Disk& disk, const Folder& folder,
                        const std::function<void(const std::string& path)>& at_directory,
                        const std::function<void(const FoundFile&)>& at_file);

}  // namespace shardfs::cache
