#include "readahead/policy.h"

#include <algorithm>
#include <utility>

namespace shardfs::readahead {
namespace {

constexpr uint64_t kPageBytes = 4096;  // the kernel asks for whole pages
// An object up to this size whose first read is at its begin is fetched by one GET: a file read in one go. Source:
// docs/decisions/0004, the size of a part.
constexpr uint64_t kOneGetBytes = 4 << 20;
// First window of a run that began elsewhere. Source: as much as one connection of 90 MB/s brings in two thirds of a
// round trip of 30 ms.
constexpr uint64_t kRunWindowBytes = 1 << 20;
// Misses of this share of an object: random reads are dense. Source: the design, "enough of its blocks touched".
constexpr uint64_t kDenseShare = 8;
// Random reads that had to wait. About half of them lie before the read before them; readers that only skip forward
// have none, and are not random. After the first limit a fault brings its block (32 reads or so: 20 must stay sparse),
// after the second the object is pulled whole (64 or so).
constexpr uint64_t kWidenAfter = 16;
constexpr uint64_t kWholeAfter = 32;
// Of a large object, one of them for so many bytes: then as much time was lost waiting, 30 ms each, as the pull takes
// at 1 GB/s; who rents until renting has cost the price and then buys pays twice the best at most.
constexpr uint64_t kBytesAMiss = 32 << 20;
// An open with a miss costs two round trips, one near the begin and one for the sample; one pays for so many bytes.
constexpr uint64_t kBytesAnOpen = 16 << 20;
// A reader that has gone elsewhere has left its window, if the last reads were all its own. Source: interleaved readers
// take turns more often; Parquet column chunks are longer than 2 MiB.
constexpr uint64_t kSteadyReads = 16;
// In an object up to so many windows none is dropped: it is under way, and a good part of what will be read. Source:
// MDS, or forked readers of 24 MiB at random, fetched 1.1 times the object when its first window was dropped.
constexpr uint64_t kKeptWindows = 4;

}  // namespace

std::string_view name_of(Pattern pattern) {
  switch (pattern) {
    case Pattern::kUnknown: return "unknown";
    case Pattern::kSparse: return "sparse";
    case Pattern::kSequential: return "sequential";
    case Pattern::kWhole: return "whole";
  }
  return "unknown";
}

FilePolicy::FilePolicy(uint64_t object_bytes, PolicyLimits limits)
    : size_(object_bytes),
      limits_(limits),
      window_limit_(std::max(limits.unit_bytes, std::min(limits.window_limit_bytes, limits.memory_bytes / 4))) {}

void FilePolicy::on_open() {
  reads_since_open_ = 0;
  missed_since_open_ = false;
}

std::vector<StreamState> FilePolicy::streams() const {
  std::vector<StreamState> states;
  for (const Stream& stream : streams_.all()) {
    if (stream.window_end > 0) states.push_back({stream.begin, stream.next, std::max(stream.next, stream.window_end)});
  }
  return states;
}

bool FilePolicy::comes_to(uint64_t offset) const {
  const auto& all = streams_.all();
  return pattern_ == Pattern::kUnknown || std::any_of(all.begin(), all.end(), [&](const Stream& stream) {
           const bool from_begin = stream.fresh && stream.begin == 0;
           return stream.next <= offset && (from_begin || (stream.is_run() && stream.length() >= limits_.run_bytes));
         });
}

base::ByteRange FilePolicy::round_out(const base::ByteRange& range, uint64_t unit) const {
  return {base::align_down(range.begin, unit), std::min(size_, base::align_up(range.end, unit))};
}

/// A scan from the object's begin, and the object may be pulled whole.
bool FilePolicy::pulls_to_end(const Stream& stream) const {
  return stream.fresh && stream.begin == 0 && stream.is_run() && stream.length() >= limits_.run_bytes &&
         size_ <= limits_.whole_object_bytes;
}

/// How far ahead of the stream bytes are wanted; 0: not at all, it may be one random read.
uint64_t FilePolicy::window_of(const Stream& stream, const base::ByteRange& read) const {
  if (pulls_to_end(stream)) return size_;
  const bool scan = stream.is_run() && stream.length() >= limits_.run_bytes;
  uint64_t window = 0;
  if (stream.begin == 0 && stream.fresh && (read.begin == 0 || stream.steps > 0)) {
    window = limits_.first_window_bytes << std::min(stream.steps, 8u);
  } else if (scan || (stream.begin == 0 && stream.steps > 0)) {
    window = std::max(limits_.first_window_bytes, 2 * stream.length());
  } else if (stream.is_run()) {
    window = std::max(kRunWindowBytes, stream.length());
  }
  return scan && size_ <= limits_.whole_object_bytes ? window : std::min(window, window_limit_);
}

void FilePolicy::note_miss(const base::ByteRange& read, bool of_run) {
  if (!std::exchange(missed_since_open_, true)) ++opens_missed_;
  if (of_run) return;
  missed_bytes_ += read.size();
  if (read.begin < last_begin_) ++backward_misses_;
}

void FilePolicy::forget_misses() { opens_missed_ = missed_bytes_ = backward_misses_ = 0; }

bool FilePolicy::is_dense() const {
  if (size_ > limits_.whole_object_bytes) return false;
  const uint64_t opens = std::min<uint64_t>(limits_.short_opens, std::max<uint64_t>(2, size_ / kBytesAnOpen));
  return opens_missed_ >= opens || missed_bytes_ >= size_ / kDenseShare ||
         backward_misses_ >= std::max(kWholeAfter, size_ / kBytesAMiss);
}

base::ByteRange FilePolicy::demand_of(const base::ByteRange& read, uint64_t window, bool first) const {
  if (first && read.begin == 0 && size_ <= kOneGetBytes) return {0, size_};
  // Whole blocks can be kept by the cache, and a longer GET is no later: a read is answered when its own bytes arrive.
  const bool scan = pattern_ == Pattern::kWhole || window > kRunWindowBytes;
  if (scan || size_ <= limits_.unit_bytes || backward_misses_ >= kWidenAfter)
    return round_out(read, limits_.unit_bytes);
  const base::ByteRange aligned = round_out(read, limits_.sparse_unit_bytes);
  if (aligned.size() <= limits_.sparse_unit_bytes) return aligned;
  const uint64_t begin = base::align_down(read.begin, kPageBytes);
  return {begin, std::min(size_, std::max(base::align_up(read.end, kPageBytes), begin + limits_.sparse_unit_bytes))};
}

base::ByteRange FilePolicy::round_in(const base::ByteRange& range) const {
  const uint64_t end = range.end == size_ ? size_ : base::align_down(range.end, limits_.unit_bytes);
  return {base::align_up(range.begin, limits_.unit_bytes), end};
}

/// The stream that the reader has left who now reads elsewhere; null: others read too, or it has just been opened.
Stream* FilePolicy::stream_left() {
  const bool alone = reads_since_open_ > 0 && streams_.streak() >= std::min(kSteadyReads, reads_since_open_);
  return alone ? streams_.latest() : nullptr;
}

/// The part of its window that nobody wants any more, now that its reader goes on at `to`.
base::ByteRange FilePolicy::take_window(Stream& stream, uint64_t to) {
  if (pattern_ == Pattern::kWhole || size_ <= kKeptWindows * limits_.first_window_bytes) return {};
  base::ByteRange left{std::max(stream.next, stream.demand_end), stream.window_end};
  if (left.contains(to)) left.end = base::align_down(to, limits_.unit_bytes);
  for (const Stream& other : streams_.all()) {
    if (&other == &stream || left.intersect({other.next, other.window_end}).empty()) continue;
    if (other.next <= left.begin) {
      left.begin = other.window_end;
    } else {
      left.end = other.next;
    }
  }
  if (left.empty() || !advised_.overlaps(left)) return {};
  pattern_ = Pattern::kSparse;  // until a run goes on
  stream.window_end = left.begin;
  advised_.remove(left);
  return left;
}

void FilePolicy::advise(base::ByteRange range, Advice& advice) {
  for (const auto& missing : advised_.missing_in(range)) advice.ahead.push_back(missing);
  advised_.add(range);
}

void FilePolicy::advise_window(Stream& stream, const base::ByteRange& read, uint64_t window, Advice& advice) {
  const uint64_t end =
      std::min(size_, base::align_down(stream.next + window + limits_.unit_bytes / 2, limits_.unit_bytes));
  if (pattern_ != Pattern::kWhole) {
    const bool whole = end == size_ && stream.begin == 0 && stream.fresh && size_ <= limits_.whole_object_bytes;
    pattern_ = whole ? Pattern::kWhole : Pattern::kSequential;
    if (whole) forget_misses();
  }
  if (stream.window_end >= end) return;
  // In steps of half a window, so that each is worth a part.
  if (end < size_ && stream.window_end > stream.next + window / 2) return;
  const uint64_t read_end = std::min(size_, base::align_up(read.end, kPageBytes));
  advise({std::max({stream.window_end, stream.demand_end, read_end}), end}, advice);
  stream.window_end = end;
}

/// From the reader on to the end, then what lies before it.
void FilePolicy::advise_whole(Advice& advice) {
  if (pattern_ == Pattern::kWhole) advised_.clear();  // again: not all of it came, or it has left the cache
  pattern_ = Pattern::kWhole;
  if (!advice.drop.empty()) advised_.add(std::exchange(advice.drop, {}));
  advise({advice.demand.end, size_}, advice);
  advise({0, advice.demand.begin}, advice);
  forget_misses();
}

Advice FilePolicy::on_read(base::ByteRange read, bool under_way) {
  Advice advice;
  read = read.intersect({0, size_});
  if (read.empty()) return advice;
  const bool first = reads_since_open_ == 0;
  // It was to come, but did not or is gone: what follows is wanted again, as the reader goes on.
  if (!under_way && advised_.contains(read)) advised_.remove({read.begin, size_});
  Stream* stream = streams_.follow(read);
  if (!stream) {
    Stream* left = stream_left();
    const base::ByteRange window = left ? base::ByteRange{left->next, left->window_end} : base::ByteRange{};
    if (left) advice.drop = take_window(*left, read.begin);
    stream = &streams_.begin(read, first, left != nullptr);
    if (window.contains(read.begin)) stream->window_end = window.end;  // it has gone on within its window
  }
  if (!under_way && stream->window_end >= read.end) stream->window_end = 0;
  ++reads_since_open_;
  const uint64_t window = window_of(*stream, read);
  if (!under_way) note_miss(read, window > 0);
  last_begin_ = read.begin;
  advice.demand = demand_of(read, window, first);
  if (!under_way) stream->demand_end = std::max(stream->demand_end, advice.demand.end);
  if (is_dense()) {
    advise_whole(advice);
  } else if (window > 0) {
    if (!under_way) advised_.add(round_in(advice.demand));
    advise_window(*stream, read, window, advice);
  } else if (pattern_ == Pattern::kUnknown) {
    pattern_ = Pattern::kSparse;
  }
  return advice;
}

}  // namespace shardfs::readahead
