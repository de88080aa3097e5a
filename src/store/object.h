// What the store holds: keys, versions, and what is known of an object.
// Thread rule: plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace shardfs::store {

/// The full key within its bucket, decoded bytes (any bytes, not only UTF-8).
using ObjectKey = std::string;

/// An opaque version name, exactly as the store sent it (quotes and W/ included); empty when the store sends none.
/// Never a checksum.
using ETag = std::string;

/// What HEAD, GET or a listing says of an object.
struct ObjectInfo {
  ObjectKey key;
  uint64_t size_bytes = 0;
  ETag etag;
  base::WallTime last_modified{};
  std::string storage_class;  // empty: standard
  bool archived = false;      // can't be read without a restore
};

/// True if both describe the same version: ETags equal (quotes and weakness aside), else size and Last-Modified.
bool same_version(const ObjectInfo& a, const ObjectInfo& b);
bool same_etag(const ETag& a, const ETag& b);

/// Names one version of one object on one store: the cache's only key.
struct ObjectId {
  std::string endpoint;  // "http://127.0.0.1:9000" or "https://s3.eu-west-1.amazonaws.com", no trailing slash
  std::string bucket;
  ObjectKey key;
  std::string version;  // the ETag without quotes, else "size-mtime"

  friend bool operator==(const ObjectId&, const ObjectId&) = default;
  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

/// The version part of an ObjectId for this object.
std::string version_of(const ObjectInfo& info);

}  // namespace shardfs::store
