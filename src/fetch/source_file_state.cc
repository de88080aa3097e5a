// What a file shows of itself: to users, and in the numbers.
#include <fmt/format.h>

#include <algorithm>

#include "fetch/parked.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

std::string counted(size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

uint64_t SourceFileImpl::cached_bytes() {
  find_cache_file();
  std::lock_guard lock(mutex_);
  return cache_file_ && !cache_file_->dead() ? cache_file_->resident_bytes() : 0;
}

bool SourceFileImpl::seems_cached() {
  {
    std::lock_guard lock(mutex_);
    if (cache_file_) return !cache_file_->dead() && cache_file_->resident_bytes() > 0;
    if (cache_looked_up_) return false;
  }
  return shared_.env.cache && shared_.env.cache->has_file(id_, info_.size_bytes);
}

FileState SourceFileImpl::state_now() const {
  FileState state;
  state.key = info_.key;
  state.size_bytes = info_.size_bytes;
  state.pattern = readahead::name_of(policy_.pattern());
  state.open_handles = handles_;
  state.parts = parts_.size();
  state.parked_reads = parked_.size();
  state.memory_bytes = memory_.all().size() * kBlockBytes;
  state.resident_bytes = cache_file_ && !cache_file_->dead() ? cache_file_->resident_bytes() : 0;
  for (const auto& [number, block] : memory_.all())
    if (block.full && !in_cache(number)) state.resident_bytes += memory_.range_of(number).size();
  state.streams = policy_.streams();
  return state;
}

FileState SourceFileImpl::file_state() {
  std::lock_guard lock(mutex_);
  return state_now();
}

std::string SourceFileImpl::state() {
  find_cache_file();
  std::lock_guard lock(mutex_);
  if (cache_file_ && cache_file_->complete()) return cache_file_->verified() ? "complete" : "complete, being verified";
  const FileState now = state_now();
  const auto blocks = [](uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; };
  std::string streams;
  for (const auto& stream : now.streams)
    streams += fmt::format("{}{}", streams.empty() ? ", next at " : ", ", stream.next);
  return fmt::format("{}: {}, {} of {}, {} under way, {} parked, {}{}", handles_ > 0 ? "reading" : "not open",
                     now.pattern, blocks(now.resident_bytes), counted(blocks(now.size_bytes), "block", "blocks"),
                     counted(now.parts, "part", "parts"), counted(now.parked_reads, "read", "reads"),
                     counted(now.streams.size(), "stream", "streams"), streams);
}

void SourceFileImpl::count_stall(const Parked& read, const Part* part, base::SteadyTime now) {
  const auto add = [&](Stall reason, base::SteadyTime from, base::SteadyTime to) {
    from = std::max(from, read.since);
    if (to > from)
      shared_.metrics.stalled_ns[static_cast<size_t>(reason)]->add(
          static_cast<uint64_t>((to - from) / std::chrono::nanoseconds(1)));
  };
  if (!part) return add(Stall::kOtherProcess, read.since, now);
  add(part->short_of_memory ? Stall::kMemory : Stall::kConnection, read.since, part->started);
  add(Stall::kFirstByte, part->started, part->begun);
  add(Stall::kTransfer, part->begun, now);
}

}  // namespace shardfs::fetch
