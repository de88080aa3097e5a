// FilePolicy: from the reads of one object to the bytes that will be wanted next. Pure: no clock, no I/O, no thread.
// Not a scheduler: it says what and in which order, never when.
// Thread rule: thread-compatible; fetch keeps one FilePolicy an object under that object's lock.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "readahead/range_set.h"
#include "readahead/streams.h"

namespace shardfs::readahead {

/// What to do about one read; all within the object.
struct Advice {
  base::ByteRange demand;  // what to fetch for the read itself, if it is not under way: it, rounded out
  // Wanted next, most urgent first, and before what was wanted earlier. May overlap what is resident or under way by
  // other demands, never what was in `ahead` before, unless that was dropped or is gone.
  std::vector<base::ByteRange> ahead;
  // Wanted earlier, but no more: what has not arrived need not. Comes before `ahead`. Empty: nothing.
  base::ByteRange drop;
};

/// What the readers of this object seem to do. Names are shown by the xattr user.shardfs.state.
enum class Pattern {
  kUnknown,     // not read yet
  kSparse,      // a few places: only what is touched
  kSequential,  // runs: a window ahead of each
  kWhole,       // pulled whole
};
std::string_view name_of(Pattern pattern);

/// A run of reads as it is shown to the user.
struct StreamState {
  uint64_t begin = 0;       // where it began
  uint64_t next = 0;        // where it goes on
  uint64_t window_end = 0;  // wanted up to here
};

struct PolicyLimits {
  uint64_t unit_bytes = 1 << 20;             // residence: what is pulled is rounded out to it
  uint64_t sparse_unit_bytes = 128 << 10;    // a sparse read is rounded out to it. Source: the kernel's READ size
  uint64_t whole_object_bytes = 8ull << 30;  // larger objects are read ahead by window, not pulled whole
  uint64_t first_window_bytes = 16 << 20;    // of a read at offset 0. Source: decision 9
  uint64_t window_limit_bytes = 128 << 20;   // of a run that is not pulled to the object's end
  uint64_t memory_bytes = 256 << 20;         // of the mount: no window is above a quarter of it
  uint64_t run_bytes = 2 << 20;              // a run this long is a scan
  uint32_t short_opens = 4;                  // this many opens with a miss pull the object whole; fewer a small one
};

class FilePolicy {
 public:
  FilePolicy(uint64_t object_bytes, PolicyLimits limits);
  void on_open();
  /// under_way: all of it is resident or being fetched already. What lies past the object's end is left out.
  Advice on_read(base::ByteRange read, bool under_way);
  Pattern pattern() const { return pattern_; }
  /// Whether a scan will get to this place if it goes on; also when nothing was read yet.
  bool comes_to(uint64_t offset) const;
  /// The runs that are kept in mind, in no order; few.
  std::vector<StreamState> streams() const;

 private:
  bool pulls_to_end(const Stream& stream) const;
  uint64_t window_of(const Stream& stream, const base::ByteRange& read) const;
  void note_miss(const base::ByteRange& read, bool of_run);
  void forget_misses();
  bool is_dense() const;
  base::ByteRange demand_of(const base::ByteRange& read, uint64_t window, bool first) const;
  base::ByteRange round_out(const base::ByteRange& range, uint64_t unit) const;
  base::ByteRange round_in(const base::ByteRange& range) const;  // the whole units in it
  Stream* stream_left();
  base::ByteRange take_window(Stream& stream, uint64_t to);
  void advise(base::ByteRange range, Advice& advice);
  void advise_window(Stream& stream, const base::ByteRange& read, uint64_t window, Advice& advice);
  void advise_whole(Advice& advice);

  const uint64_t size_;
  const PolicyLimits limits_;
  const uint64_t window_limit_;
  Pattern pattern_ = Pattern::kUnknown;
  Streams streams_;
  RangeSet advised_;  // was in `ahead` and not in `drop`, and whole blocks that runs demanded
  uint64_t reads_since_open_ = 0;
  uint64_t last_begin_ = 0;  // of the read before
  // What had to wait since the object was last pulled whole. The last two: reads that belong to no run.
  bool missed_since_open_ = false;
  uint64_t opens_missed_ = 0;
  uint64_t missed_bytes_ = 0;
  uint64_t backward_misses_ = 0;  // those that lie before the read before
};

}  // namespace shardfs::readahead
