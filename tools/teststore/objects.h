// Objects: the buckets of the server, each a map from key to object. Any byte string is a key.
// Not a disk store: bytes lie in memory, in files that others own, or are generated.
// Thread rule: thread-safe. An Object never changes; a put replaces it, and replies under way keep the old one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "teststore/text.h"

namespace shardfs::teststore {

/// What a put may say of an object besides its bytes.
struct Attributes {
  std::string content_type = "binary/octet-stream";
  std::string content_encoding;
  std::string storage_class = "STANDARD";  // GLACIER and DEEP_ARCHIVE refuse GET
  std::string restore;                     // x-amz-restore, e.g. ongoing-request="false": a restored copy is readable
  std::string etag;                        // with its quotes; empty: made by the store
  WallTime last_modified{};                // zero: now (files: their time)
};

struct Object {
  enum class Source { kBytes, kFile, kGenerated };
  Source source = Source::kBytes;
  std::string bytes;  // kBytes
  std::string path;   // kFile: opened at each GET
  uint64_t seed = 0;  // kGenerated
  uint64_t size_bytes = 0;
  Attributes attributes;  // etag and last_modified filled in
};

using ObjectPtr = std::shared_ptr<const Object>;
using Bucket = std::map<std::string, ObjectPtr, std::less<>>;

class Objects {
 public:
  void make_bucket(std::string_view bucket);
  bool has_bucket(std::string_view bucket) const;
  std::vector<std::string> buckets() const;

  // Each makes the bucket when there is none, and returns the new ETag.
  std::string put(std::string_view bucket, std::string_view key, std::string bytes, Attributes attributes = {});
  std::string put_generated(std::string_view bucket, std::string_view key, uint64_t size_bytes, uint64_t seed,
                            Attributes attributes = {});
  /// Errors: kIo when there is no such regular file.
  base::Result<std::string> put_file(std::string_view bucket, std::string_view key, const std::string& path,
                                     Attributes attributes = {});
  /// Every folder in `root` becomes a bucket, every regular file below it an object. Errors: kIo.
  base::Result<void> put_tree(const std::string& root);

  ObjectPtr find(std::string_view bucket, std::string_view key) const;
  bool remove(std::string_view bucket, std::string_view key);

  /// Runs `visit(const Bucket&)` under the lock, unless there is no such bucket (then false).
  template <class Visit>
  bool with_bucket(std::string_view bucket, Visit&& visit) const {
    std::shared_lock lock(mutex_);
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end()) return false;
    visit(found->second);
    return true;
  }

 private:
  std::string insert(std::string_view bucket, std::string_view key, Object object);

  mutable std::shared_mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace shardfs::teststore
