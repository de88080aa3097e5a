#include "readahead/streams.h"

namespace shardfs::readahead {
namespace {

// Runs kept, and others (a random read may be the first of a run) beside them. Source: frameworks.md has ten streams in
// turn; half as many more again.
constexpr size_t kRuns = 16;
constexpr size_t kOthers = 16;
// How far from where a stream goes on a read may begin and still belong to it, either way. Source: kernel.md section 6
// saw reads arrive out of order within 2 MiB of kernel read-ahead; Parquet readers skip columns of that size.
constexpr uint64_t kReorderBytes = 2 << 20;
// A read that begins within this of where the stream goes on is a step of it. Source: one READ of the kernel that
// another one has overtaken.
constexpr uint64_t kStepBytes = 128 << 10;
// A run has so much read, at least half of what it spans; a longer one may have larger gaps. Source: 20 random reads of
// 64 KiB in a shard of 128 MiB must stay random. Two of them lie within 2 MiB often, four within 512 KiB once in a
// thousand times. Readers that skip columns are still worth a window.
constexpr uint64_t kRunBytes = 256 << 10;
constexpr uint64_t kLongRunBytes = 1 << 20;
constexpr uint64_t kRunShare = 2;
constexpr uint64_t kLongRunShare = 8;

uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

bool Stream::is_run() const {
  const uint64_t share = length() < kLongRunBytes ? kRunShare : kLongRunShare;
  return length() >= kRunBytes && read_bytes >= (next - begin) / share;
}

Streams::Streams() { streams_.reserve(kRuns + kOthers); }

Stream* Streams::follow(const base::ByteRange& read) {
  Stream* nearest = nullptr;
  for (auto& stream : streams_) {
    if (distance(read.begin, stream.next) > kReorderBytes) continue;
    if (!nearest || distance(read.begin, stream.next) < distance(read.begin, nearest->next)) nearest = &stream;
  }
  if (!nearest) return nullptr;
  if (read.end > nearest->next && distance(read.begin, nearest->next) <= kStepBytes) ++nearest->steps;
  nearest->begin = std::min(nearest->begin, read.begin);
  nearest->next = std::max(nearest->next, read.end);
  nearest->read_bytes += read.size();
  note_read(*nearest, nearest == latest_);
  return nearest;
}

Stream& Streams::begin(const base::ByteRange& read, bool fresh, bool same_reader) {
  Stream& stream = place_for_new();
  stream = Stream{};
  stream.begin = read.begin;
  stream.next = read.end;
  stream.read_bytes = read.size();
  stream.fresh = fresh;
  note_read(stream, same_reader);
  return stream;
}

Stream& Streams::place_for_new() {
  if (streams_.size() < kRuns + kOthers) return streams_.emplace_back();
  size_t runs = 0;
  Stream* oldest[2] = {nullptr, nullptr};  // of the others, of the runs
  for (auto& stream : streams_) {
    const bool run = stream.is_run();
    runs += run;
    if (!oldest[run] || stream.used < oldest[run]->used) oldest[run] = &stream;
  }
  return *oldest[runs > kRuns];
}

void Streams::note_read(Stream& stream, bool same_reader) {
  streak_ = same_reader ? streak_ + 1 : 1;
  stream.used = ++reads_;
  latest_ = &stream;
}

}  // namespace shardfs::readahead
