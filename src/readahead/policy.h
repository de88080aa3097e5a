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

/// What the readers of this object seem to do. Names are shown by the xattr user.shardfs.state.
enum class Pattern {
  kUnknown,     // not read yet
  kSparse,      // a few places: only what is touched
  kSequential,  // runs: a window ahead of each (objects too large to pull whole)
  kWhole,       // pulled whole
};
std::string_view name_of(Pattern pattern);

struct PolicyLimits {
  uint64_t unit_bytes = 1 << 20;             // residence: what is pulled is rounded out to it
  uint64_t sparse_unit_bytes = 128 << 10;    // a sparse read is rounded out to it. Source: the kernel's READ size
  uint64_t whole_object_bytes = 8ull << 30;  // larger objects are read ahead by window, not pulled whole
  uint64_t window_limit_bytes = 128 << 20;   // for those
  uint64_t run_bytes = 2 << 20;              // a run this long is a scan
  uint32_t short_opens = 4;                  // this many opens, each read, pull the object whole
};

class FilePolicy {
 public:
  FilePolicy(uint64_t object_bytes, PolicyLimits limits) : size_(object_bytes), limits_(limits) {}
  void on_open();
  /// under_way: all of it is resident or being fetched already. read: not empty, within the object.
  Advice on_read(base::ByteRange read, bool under_way);
  Pattern pattern() const { return pattern_; }

 private:
  struct Stream {
    uint64_t begin = 0;       // of the run
    uint64_t length = 0;      // bytes read in it
    uint64_t next = 0;        // where the run goes on
    uint64_t window_end = 0;  // wanted up to here
    uint64_t used = 0;        // tick of its last read
  };
  Stream& stream_of(const base::ByteRange& read);
  bool is_scan(const base::ByteRange& read, const Stream& stream) const;
  void advise_window(const base::ByteRange& read, Stream& stream, Advice& advice) const;
  base::ByteRange round_out(base::ByteRange range, uint64_t unit) const;

  const uint64_t size_;
  const PolicyLimits limits_;
  Pattern pattern_ = Pattern::kUnknown;
  std::vector<Stream> streams_;
  uint64_t tick_ = 0;
  uint64_t touched_bytes_ = 0;
  uint32_t opens_ = 0;
  uint32_t opens_read_ = 0;  // opens that were followed by a read
  bool read_since_open_ = false;
};

}  // namespace shardfs::readahead
