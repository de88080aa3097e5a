// Streams: the runs of nearly sequential reads in one object, found by offsets alone: the kernel makes up the sizes of
// reads, and forked readers share descriptors. Random reads leave short ones, which never push out a run.
// Not a policy: it says what goes on where, not what to fetch.
// Thread rule: thread-compatible. Pointers stay good until the next begin().
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_range.h"

namespace shardfs::readahead {

struct Stream {
  uint64_t begin = 0;       // the lowest byte read
  uint64_t next = 0;        // where it goes on
  uint64_t read_bytes = 0;  // in all, repeated ones too
  uint64_t demand_end = 0;  // demanded up to here by its reads
  uint64_t window_end = 0;  // wanted up to here; 0: nothing yet
  uint64_t used = 0;        // number of its last read
  uint32_t steps = 0;       // reads that went on just where the ones before had ended
  bool fresh = false;       // it began with the first read after an open

  /// Bytes read in it.
  uint64_t length() const { return std::min(read_bytes, next - begin); }
  /// More than a few reads that lie together by chance.
  bool is_run() const;
};

class Streams {
 public:
  Streams();
  /// The stream that the read belongs to, moved on by it; null: to none.
  Stream* follow(const base::ByteRange& read);
  /// A new stream; it takes the place of one that was not read for long. same_reader: the one of the latest has moved.
  Stream& begin(const base::ByteRange& read, bool fresh, bool same_reader);
  /// That of the read before; null: none yet.
  Stream* latest() { return latest_; }
  /// How many of the last reads in succession were the latest stream's, or its reader's in others.
  uint64_t streak() const { return streak_; }
  const std::vector<Stream>& all() const { return streams_; }

 private:
  void note_read(Stream& stream, bool same_reader);
  Stream& place_for_new();

  std::vector<Stream> streams_;  // never more than it was reserved for: pointers stay good
  Stream* latest_ = nullptr;
  uint64_t reads_ = 0;
  uint64_t streak_ = 0;
};

}  // namespace shardfs::readahead
