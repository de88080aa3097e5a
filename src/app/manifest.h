// manifest: a fixed list of objects out of a file, CSV or JSON lines, with key, size and ETag of each.
// Thread rule: pure functions, but for the one that reads a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/object.h"

namespace shardfs::app {

/// Sorted by key. bucket: keys may also be written as s3://BUCKET/KEY. JSON lines if the text begins with "{": the
/// names "key", "size", "etag" in any case. CSV: the same three in this order, or in that of a first line that names
/// them; other columns are passed over. Errors: kInvalid, naming the line (no size, no ETag, a key twice, another
/// bucket).
base::Result<std::vector<store::ObjectInfo>> parse_manifest(std::string_view text, const std::string& bucket);

/// Errors: as parse_manifest, and kInvalid if the file can't be read.
base::Result<std::vector<store::ObjectInfo>> read_manifest(const std::string& path, const std::string& bucket);

}  // namespace shardfs::app
