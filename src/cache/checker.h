// Checker: goes through all blocks of a cache folder, one step a block, and compares each with its checksum.
// Not when and how fast: its callers' (`cache verify`, the scrub). It holds no file open between two steps.
// Thread rule: thread-compatible; blocks on local I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cache/block_reader.h"
#include "cache/core.h"
#include "cache/holdings.h"

namespace shardfs::cache {

class Checker {
 public:
  /// after: where an earlier one was; "": from the beginning.
  Checker(std::shared_ptr<Core> core, const std::string& after);

  /// Checks the next block and adds to `progress`. False: there is none any more. Errors: kCacheIo.
  base::Result<bool> step(Holdings::Check& progress);
  /// Where it is; "" at the end.
  std::string place() const;

 private:
  const std::shared_ptr<Core> core_;
  BlockReader reader_;
  FileKey after_;                 // all of it was checked
  std::optional<IndexRow> file_;  // the one that is being checked
  uint32_t block_ = 0;            // the next one in it
  bool at_end_ = false;
};

}  // namespace shardfs::cache
