// ResponseHead: status and headers of one answer. Names are compared without case.
// Thread rule: thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "store/object.h"

namespace shardfs::s3 {

class ResponseHead {
 public:
  /// One line as it came, with or without its line end. A status line begins a new head.
  void add_line(std::string_view line);
  void clear();

  int status() const { return status_; }
  /// Empty when it is absent. name: lower case.
  const std::string& header(std::string_view name) const;
  bool has(std::string_view name) const { return !header(name).empty(); }
  std::optional<uint64_t> content_length() const;

 private:
  int status_ = 0;
  std::vector<std::pair<std::string, std::string>> headers_;  // names in lower case
};

/// "bytes 0-9/100"; size_bytes is empty for "/*".
struct ContentRange {
  base::ByteRange range;
  std::optional<uint64_t> size_bytes;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// What a HEAD or GET answer says of an object. size_bytes: of the whole object.
store::ObjectInfo object_info_of(const ResponseHead& head, const std::string& key, uint64_t size_bytes);

/// True for classes that need a restore before they can be read.
bool is_archive_class(std::string_view storage_class);

}  // namespace shardfs::s3
