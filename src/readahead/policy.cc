#include "readahead/policy.h"

namespace shardfs::readahead {
namespace {

// Streams kept an object. Source: frameworks.md names readers with four cursors in one file; twice that.
constexpr size_t kStreams = 8;
// How far from a run's end a read may begin and still belong to it, either way. Source: kernel.md section 6 saw reads
// arrive out of order within 2 MiB of kernel read-ahead.
constexpr uint64_t kReorderBytes = 2 << 20;
// An object of which this share was touched by reads is pulled whole: random reads are dense then.
constexpr uint64_t kDenseShare = 8;
// First window of a run in an object that is too large to pull whole.
constexpr uint64_t kFirstWindowBytes = 8 << 20;

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

void FilePolicy::on_open() {
  ++opens_;
  read_since_open_ = false;
}

base::ByteRange FilePolicy::round_out(base::ByteRange range, uint64_t unit) const {
  return {base::align_down(range.begin, unit), std::min(size_, base::align_up(range.end, unit))};
}

FilePolicy::Stream& FilePolicy::stream_of(const base::ByteRange& read) {
  ++tick_;
  Stream* oldest = nullptr;
  for (auto& stream : streams_) {
    const uint64_t reach = stream.next + kReorderBytes;
    const uint64_t back = stream.next > kReorderBytes ? stream.next - kReorderBytes : 0;
    if (read.begin >= std::max(back, stream.begin) && read.begin <= reach) {
      stream.next = std::max(stream.next, read.end);
      stream.length += read.size();
      stream.used = tick_;
      return stream;
    }
    if (!oldest || stream.used < oldest->used) oldest = &stream;
  }
  if (streams_.size() < kStreams) oldest = &streams_.emplace_back();
  *oldest = Stream{read.begin, read.size(), read.end, read.end, tick_};
  return *oldest;
}

bool FilePolicy::is_scan(const base::ByteRange& read, const Stream& stream) const {
  return read.begin == 0 || stream.length >= limits_.run_bytes || touched_bytes_ >= size_ / kDenseShare ||
         opens_read_ >= limits_.short_opens;
}

void FilePolicy::advise_window(const base::ByteRange& read, Stream& stream, Advice& advice) const {
  const uint64_t window = std::min(limits_.window_limit_bytes, std::max(kFirstWindowBytes, 2 * stream.length));
  const uint64_t wanted_end = std::min(size_, base::align_up(read.end + window, limits_.unit_bytes));
  // Asked for in steps of half a window, so that each step is worth a part.
  if (stream.window_end >= wanted_end || (wanted_end < size_ && wanted_end - stream.window_end < window / 2)) return;
  const uint64_t begin =
      std::max(base::align_down(read.end, limits_.unit_bytes), base::align_down(stream.window_end, limits_.unit_bytes));
  advice.ahead.push_back({begin, wanted_end});
  stream.window_end = wanted_end;
}

Advice FilePolicy::on_read(base::ByteRange read, bool under_way) {
  if (!read_since_open_) {
    read_since_open_ = true;
    ++opens_read_;
  }
  touched_bytes_ += read.size();
  Stream& stream = stream_of(read);
  Advice advice;
  if (pattern_ == Pattern::kWhole) {
    advice.demand = round_out(read, limits_.unit_bytes);
    // Something of what was pulled is not there any more, or never came: pull on from here.
    if (!under_way && advice.demand.end < size_) advice.ahead.push_back({advice.demand.end, size_});
    return advice;
  }
  if (!is_scan(read, stream)) {
    if (pattern_ == Pattern::kUnknown) pattern_ = Pattern::kSparse;
    advice.demand = round_out(read, pattern_ == Pattern::kSequential ? limits_.unit_bytes : limits_.sparse_unit_bytes);
    return advice;
  }
  advice.demand = round_out(read, limits_.unit_bytes);
  if (size_ > limits_.whole_object_bytes) {
    pattern_ = Pattern::kSequential;
    advise_window(read, stream, advice);
    return advice;
  }
  pattern_ = Pattern::kWhole;
  if (advice.demand.end < size_) advice.ahead.push_back({advice.demand.end, size_});
  if (advice.demand.begin > 0) advice.ahead.push_back({0, advice.demand.begin});
  return advice;
}

}  // namespace shardfs::readahead
