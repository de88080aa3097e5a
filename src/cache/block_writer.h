// BlockWriter: writes blocks into a data file, whole ones but the first past the page cache where the file system can.
// Not the map, nor the right to write. Decision 0018.
// Thread rule: thread-safe; blocks on local I/O. Owns a second descriptor of the data file from the first whole block
// until close().
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "base/disk.h"

namespace shardfs::cache {

class BlockWriter {
 public:
  /// data_fd: open for writing as long as this lives.
  BlockWriter(base::Disk& disk, int data_fd) : disk_(disk), data_fd_(data_fd) {}
  /// The whole span or an error, as Disk::write_at.
  base::Result<void> write(std::span<const std::byte> data, uint64_t offset_bytes);
  /// Lets go of the second descriptor; it is opened again when it is needed.
  void close();

 private:
  /// Null: the file system has no such writes.
  std::shared_ptr<base::UniqueFd> direct();
  void refuse();

  base::Disk& disk_;
  const int data_fd_;
  std::mutex mutex_;                        // guards the rest
  std::shared_ptr<base::UniqueFd> direct_;  // with O_DIRECT
  bool refused_ = false;
};

}  // namespace shardfs::cache
