// Policy: from the reads of one object to the bytes that will be wanted next. Pure: no clock, no I/O, no thread.
// Not a scheduler: it says what and in which order, never when.
// Thread rule: thread-compatible; fetch keeps one FilePolicy an object under that object's lock.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/byte_range.h"

namespace shardfs::readahead {

/// What to do about one read.
struct Advice {
  base::ByteRange demand;              // what to fetch for the read itself: it, rounded out; within the object
  std::vector<base::ByteRange> ahead;  // wanted next, most urgent first; may overlap what is resident or under way
};

/// What a reader of this object seems to do. Names are shown by the xattr user.shardfs.state and by stats.
enum class Pattern { kUnknown, kSparse, kSequential, kWhole };
std::string_view name_of(Pattern pattern);

struct PolicyLimits {
  uint64_t first_window_bytes = 1 << 20;     // fetched around a first read
  uint64_t whole_object_bytes = 8ull << 30;  // larger objects are read ahead by window, not pulled whole
  uint64_t window_limit_bytes = 128 << 20;   // for those
};

class FilePolicy {
 public:
  FilePolicy(uint64_t object_bytes, PolicyLimits limits) : size_(object_bytes), limits_(limits) {}
  void on_open(uint32_t process);
  Advice on_read(base::ByteRange read, uint32_t process);
  Pattern pattern() const { return pattern_; }

 private:
  struct Stream {
    uint64_t next = 0;    // where the next read of the run would begin
    uint64_t length = 0;  // bytes read in this run
    uint64_t window_end = 0;
    uint64_t used = 0;  // for replacing the oldest
  };
  Stream* find_stream(const base::ByteRange& read);

  const uint64_t size_;
  const PolicyLimits limits_;
  Pattern pattern_ = Pattern::kUnknown;
  std::vector<Stream> streams_;
  uint64_t ticks_ = 0;
  uint32_t short_opens_ = 0;  // opens since the last one that was read far
  uint64_t touched_bytes_ = 0;
};

}  // namespace shardfs::readahead
