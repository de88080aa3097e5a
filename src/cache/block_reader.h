// BlockReader: reads blocks of data files from the disk itself, past the page cache where the file system can do that:
// a copy in memory says nothing of the disk, and what a job has in memory must not leave for a check.
// Thread rule: thread-compatible. Owns its buffer.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/byte_range.h"
#include "base/disk.h"
#include "base/error.h"

namespace shardfs::cache {

class BlockReader {
 public:
  explicit BlockReader(base::Disk& disk);
  /// The bytes are valid until the next call. range: at most a block. Errors: kCacheIo.
  base::Result<std::span<const std::byte>> read(int data_fd, base::ByteRange range);

 private:
  base::Disk& disk_;
  std::unique_ptr<std::byte, decltype(&std::free)> buffer_;
};

}  // namespace shardfs::cache
