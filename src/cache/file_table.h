// FileTable: the cache files that this mount has open, one instance each, and the making of new ones on disk.
// Thread rule: thread-safe; blocks on local I/O. A second caller for one file waits for the first.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "cache/core.h"
#include "cache/map_file.h"
#include "store/object.h"

namespace shardfs::cache {

/// An open pair of data and map file, with the open lock held by data_fd.
struct OpenPair {
  base::UniqueFd data_fd;
  MapFile map;
};

class FileTable {
 public:
  enum class Wish {
    kMayMake,
    kOnlyFind,
    kOnlyLook,  // as kOnlyFind, and no use of the file
  };

  /// Null: see Cache::open_file and Cache::find_file.
  std::shared_ptr<File> get(const std::shared_ptr<Core>& core, const store::ObjectId& id, uint64_t size_bytes,
                            Wish wish);
  /// Of any namespace of the folder. Requires: the key is that of id and size_bytes.
  std::shared_ptr<File> get(const std::shared_ptr<Core>& core, const FileKey& key, const store::ObjectId& id,
                            uint64_t size_bytes, Wish wish);
  /// All that are open now.
  std::vector<std::shared_ptr<File>> all();
  /// By the object's hash, any size.
  void note_use(const FileKey& key, int64_t ms);
  /// From the destructor of a File.
  void forget(const FileKey& key, const File* file);

 private:
  struct Entry {
    std::weak_ptr<File> file;
    const File* address = nullptr;
    bool opening = false;
  };

  std::mutex mutex_;  // guards entries_
  std::condition_variable opened_;
  std::map<FileKey, Entry> entries_;
};

/// Opens the pair. Errors: kNotFound: is not there; kIntegrity: another object has this hash; kCacheFull: dead and
/// still in use; kCacheIo.
base::Result<OpenPair> open_pair(Core& core, const FileKey& key, const store::ObjectId& id, uint64_t size_bytes);
/// Makes an empty pair and opens it. Errors: kCacheFull: no space; kChanged: somebody was faster, open it; kCacheIo.
base::Result<OpenPair> make_pair(Core& core, const FileKey& key, const store::ObjectId& id, uint64_t size_bytes);

}  // namespace shardfs::cache
