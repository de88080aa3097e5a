// FileState: what a file is doing, for people. Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "readahead/policy.h"

namespace shardfs::fetch {

struct FileState {
  std::string key;
  uint64_t size_bytes = 0;
  std::string_view pattern;  // of its reads
  unsigned open_handles = 0;
  uint64_t resident_bytes = 0;  // in the cache or in memory
  uint64_t memory_bytes = 0;    // its buffers
  size_t parts = 0;             // under way
  size_t parked_reads = 0;
  std::vector<readahead::StreamState> streams;
};

}  // namespace shardfs::fetch
