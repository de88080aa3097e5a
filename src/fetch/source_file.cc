// Opening, closing, reading: how a read is answered from what is there, or parked.
#include "fetch/source_file.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "fetch/parked.h"

namespace shardfs::fetch {
namespace {

// Without a cache, a file that is opened again within this time goes on being read ahead. Source: MDS opens a shard for
// every sample, and a training step is shorter.
constexpr std::chrono::seconds kReopenGrace{1};
// A reader that has paused for so long leaves the memory to others. Source: a DataLoader worker's longest usual step.
constexpr std::chrono::seconds kAwaited{2};
// How often the cache may fail one read before the reader is told. Source: the design's "after one refetch".
constexpr unsigned kRefetchLimit = 2;

readahead::PolicyLimits limits_of(const FetchOptions& options) {
  readahead::PolicyLimits limits = options.readahead;
  limits.memory_bytes = options.memory_bytes;
  return limits;
}

/// Room for the pieces of one read that come from the cache file; reused by each thread.
std::span<std::byte> scratch(size_t bytes) {
  thread_local std::vector<std::byte> room;
  if (room.size() < bytes) room.resize(bytes);
  return {room.data(), bytes};
}

}  // namespace

SourceFileImpl::SourceFileImpl(Shared& shared, store::ObjectInfo info, store::ObjectId id)
    : shared_(shared),
      info_(std::move(info)),
      id_(std::move(id)),
      policy_(info_.size_bytes, limits_of(shared.options)),
      memory_(info_.size_bytes),
      origins_(info_.size_bytes, shared.metrics.origins) {
  if (const auto unread = shared_.unread_files.take(name())) origins_.carry(*unread);
}

SourceFileImpl::~SourceFileImpl() {
  for (const auto& prefetch : prefetches_) prefetch.done();  // nothing under way holds it, so nothing is
  if (const auto unread = origins_.unread()) shared_.unread_files.put(name(), *unread);
  if (holding_) shared_.holders.remove();
}

void SourceFileImpl::opened(uint32_t) {
  if (shared_.env.cache) shared_.env.cache->touch(id_);
  std::vector<store::RequestHandle> raised;
  {
    std::lock_guard lock(mutex_);
    if (handles_++ == 0) scan_told_ = false;
    expected_until_ = std::max(expected_until_, shared_.env.clock.now() + kAwaited);
    cache_refused_ = false;  // what kept it out may be over
    changed_.reset();        // the store may have this version again, or have sent a wrong answer
    policy_.on_open();
    raised = raise_parts({0, info_.size_bytes}, Cause::kReadahead);
    count_holding();
  }
  for (const auto& request : raised) request->raise_to(store::Priority::kReadahead);
}

void SourceFileImpl::closed() {
  bool cached = false;
  {
    std::lock_guard lock(mutex_);
    if (handles_ > 0) --handles_;
    if (handles_ > 0) return;
    expected_until_ = {};
    count_holding();
    cached = shared_.env.cache && !cache_refused_;
  }
  note_if_idle();
  if (cached) return;
  shared_.env.timer.schedule(kReopenGrace, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end_predictions();
  });
}

void SourceFileImpl::find_cache_file() {
  if (!shared_.env.cache || info_.size_bytes == 0) return;
  {
    std::lock_guard lock(mutex_);
    if (cache_looked_up_ && !(cache_file_ && cache_file_->dead())) return;
    cache_looked_up_ = true;
  }
  auto found = shared_.env.cache->find_file(id_, info_.size_bytes);
  if (!found) return;
  std::lock_guard lock(mutex_);
  if (!cache_file_ || cache_file_->dead()) set_cache_file(std::move(found));
}

void SourceFileImpl::set_cache_file(std::shared_ptr<cache::CacheFile> file) {
  cache_file_ = std::move(file);
  complete_told_ = cache_file_ && cache_file_->complete() && cache_file_->verified();
}

bool SourceFileImpl::let_go_of_cache_file() {
  std::shared_ptr<cache::CacheFile> file;  // closed after the lock is released
  std::lock_guard lock(mutex_);
  if (!idle()) return false;
  file.swap(cache_file_);
  cache_looked_up_ = false;
  return file != nullptr;
}

bool SourceFileImpl::idle() const { return handles_ == 0 && parked_.empty() && parts_.empty() && writes_ == 0; }

void SourceFileImpl::note_if_idle() {
  {
    std::lock_guard lock(mutex_);
    if (!idle() || !cache_file_) return;
  }
  shared_.idle_files.add(shared_from_this());
}

bool SourceFileImpl::in_cache(uint32_t block) const { return cache_file_ && cache_file_->has_block(block); }

uint64_t SourceFileImpl::resident_bytes_of(const base::ByteRange& range) const {
  uint64_t bytes = 0;
  for (uint64_t at = range.begin; at < range.end;) {
    const uint32_t block = block_of(at);
    const base::ByteRange piece = range.intersect(memory_.range_of(block));
    if (memory_.has(block, piece) || in_cache(block)) bytes += piece.size();
    at = piece.end;
  }
  return bytes;
}

std::optional<SourceFileImpl::PieceList> SourceFileImpl::locate(const base::ByteRange& range) {
  PieceList pieces;
  for (uint64_t at = range.begin; at < range.end;) {
    const uint32_t block = block_of(at);
    const base::ByteRange piece = range.intersect(memory_.range_of(block));
    if (memory_.has(block, piece)) {
      pieces.push_back({piece, memory_.find(block)->buffer});
    } else if (in_cache(block)) {
      if (!pieces.empty() && !pieces.back().buffer) {
        pieces.back().range.end = piece.end;
      } else {
        pieces.push_back({piece, nullptr});
      }
    } else {
      return std::nullopt;
    }
    at = piece.end;
  }
  return pieces;
}

void SourceFileImpl::note_served(const base::ByteRange& range) {
  for (uint64_t at = range.begin; at < range.end;) {
    const uint32_t block = block_of(at);
    const base::ByteRange whole = memory_.range_of(block);
    const base::ByteRange piece = range.intersect(whole);
    at = piece.end;
    origins_.read(block, piece.size());
    MemoryBlock* found = memory_.find(block);
    if (!found) continue;
    found->served_bytes += piece.size();
    if (found->full && !found->writing && found->served_bytes >= whole.size()) drop_read_through(block);
  }
  count_holding();
}

void SourceFileImpl::count_holding() {
  const bool holds = handles_ > 0 && (memory_.unsaved_blocks() > 0 || !wants_[index_of(Cause::kReadahead)].empty());
  if (holds == holding_) return;
  holding_ = holds;
  holds ? shared_.holders.add() : shared_.holders.remove();
}

std::shared_ptr<ParkedRead> SourceFileImpl::read(base::ByteRange range, uint32_t, ReadDone done) {
  find_cache_file();
  range = range.intersect({0, info_.size_bytes});
  if (range.empty()) {
    done(Pieces{});
    return nullptr;
  }
  auto read = std::make_shared<Parked>(weak_from_this(), range, std::move(done));
  park(read, true);
  return read;
}

void SourceFileImpl::park(const ParkedPtr& read, bool counted) {
  auto& metrics = shared_.metrics;
  const base::ByteRange& range = read->range;
  std::optional<PieceList> pieces;
  std::optional<base::Error> refusal;
  std::vector<store::RequestHandle> urgent, raised, dropped;
  bool demand = false, ahead = false, scanned = false;
  {
    std::lock_guard lock(mutex_);
    if (counted) {
      const uint64_t resident = resident_bytes_of(range);
      const bool hit = resident == range.size();
      (hit ? metrics.hits : resident ? metrics.partial_hits : metrics.misses).add();
      (hit ? metrics.hit_bytes : resident ? metrics.partial_hit_bytes : metrics.miss_bytes).add(range.size());
    }
    readahead::Advice advice{range, {}, {}};
    expected_until_ = std::max(expected_until_, shared_.env.clock.now() + kAwaited);
    const bool whole_in_cache = cache_file_ && cache_file_->complete();
    const bool under_way = whole_in_cache || next_missing(range.begin, range.end) >= range.end;
    if (!counted) {
      // The cache failed it: whole blocks, so that they can be kept again, and one GET for all that wait for them.
      advice.demand = {base::align_down(range.begin, kBlockBytes), memory_.range_of(block_of(range.end - 1)).end};
    } else if (!whole_in_cache || !scan_told_) {
      advice = policy_.on_read(range, under_way);
      scanned = !scan_told_ && is_end_of_scan(range);
      scan_told_ = scan_told_ || scanned;
      if (whole_in_cache) advice = {range, {}, {}};
    }
    pieces = locate(range);
    if (pieces) {
      note_served(range);
    } else if (changed_) {
      refusal = *changed_;
    } else if (stopped_) {
      refusal = base::Error{base::Code::kCancelled, "the mount ends"};
    } else {
      const auto now = shared_.env.clock.now();
      if (!read->parked_once) {
        read->parked_once = true;
        read->since = now;
        read->deadline = now + shared_.options.demand_deadline;
      }
      parked_.push_back(read);
      metrics.parked_reads.add(1);
      if (!under_way) {
        want(Cause::kDemand, advice.demand);
        demand = true;
      }
      for (const auto& part : parts_) {
        if (part->urgency != Cause::kDemand && !part->range.intersect(range).empty()) part->add_requests(urgent);
      }
    }
    dropped = drop_ahead(advice.drop);
    if (!changed_ && !stopped_) {
      want_ahead(advice.ahead);
      for (const auto& wanted : advice.ahead) {
        auto under_way_ahead = raise_parts(wanted, Cause::kReadahead);
        std::move(under_way_ahead.begin(), under_way_ahead.end(), std::back_inserter(raised));
      }
      ahead = !advice.ahead.empty();
      count_holding();
    }
  }
  for (const auto& request : dropped) request->cancel();
  for (const auto& request : urgent) request->raise_to(store::Priority::kDemand);
  for (const auto& request : raised) request->raise_to(store::Priority::kReadahead);
  start_pending(demand, ahead);
  if (scanned && shared_.on_scan) shared_.on_scan(info_);
  if (pieces) deliver(read, std::move(*pieces));
  if (refusal) end_read(read, std::move(*refusal));
}

void SourceFileImpl::start_pending(bool demand, bool ahead) {
  if (demand) shared_.scheduler.enqueue(shared_from_this(), Cause::kDemand);
  if (ahead) shared_.scheduler.enqueue(shared_from_this(), Cause::kReadahead);
  if (demand || ahead) shared_.scheduler.pump();
}

void SourceFileImpl::deliver(const ParkedPtr& read, PieceList pieces) {
  std::shared_ptr<cache::CacheFile> cached;
  uint64_t disk_bytes = 0;
  for (const auto& piece : pieces) disk_bytes += piece.buffer ? 0 : piece.range.size();
  if (disk_bytes > 0) {
    std::lock_guard lock(mutex_);
    cached = cache_file_;
  }
  std::vector<iovec> out;
  out.reserve(pieces.size());
  std::span<std::byte> room = scratch(disk_bytes);
  for (const auto& piece : pieces) {
    if (piece.buffer) {
      const uint64_t within = piece.range.begin % kBlockBytes;
      out.push_back({piece.buffer->data() + within, piece.range.size()});
      continue;
    }
    const auto into = room.first(piece.range.size());
    room = room.subspan(piece.range.size());
    const auto result = cached ? cached->read(piece.range, into)
                               : base::Result<void>(base::fail(base::Code::kNotFound, "the cache file was given up"));
    if (!result) return refetch(read, result.error());
    out.push_back({into.data(), into.size()});
  }
  if (read->parked_once) shared_.metrics.stall.record(shared_.env.clock.now() - read->since);
  read->done(Pieces(out));
  pieces.clear();  // the buffers go before those who wait for memory are told
  if (cached) tell_if_complete(*cached);
  shared_.scheduler.memory_freed();
}

void SourceFileImpl::deliver_all(std::vector<Ready> ready) {
  for (auto& [read, pieces] : ready) {
    // The caller may be a thread of the store, which must not wait for the disk.
    if (std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.buffer != nullptr; })) {
      deliver(read, std::move(pieces));
    } else {
      shared_.post([self = shared_from_this(), read = read, pieces = std::move(pieces)]() mutable {
        self->deliver(read, std::move(pieces));
      });
    }
  }
}

void SourceFileImpl::refetch(const ParkedPtr& read, const base::Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (error.code == base::Code::kCacheIo) cache_refused_ = true;
    if (cache_refused_ || (cache_file_ && cache_file_->dead())) set_cache_file(nullptr);
  }
  shared_.metrics.refetched_blocks.add();
  if (++read->refetches > kRefetchLimit) return end_read(read, error);
  base::warn_once("refetch " + info_.key, "cache: {}: {}; fetched again from the store", info_.key, error.message);
  park(read, false);
}

void SourceFileImpl::end_read(const ParkedPtr& read, base::Error error) {
  if (read->parked_once) shared_.metrics.stall.record(shared_.env.clock.now() - read->since);
  read->done(tl::unexpected(std::move(error)));
}

SourceFileImpl::ParkedPtr SourceFileImpl::unpark(Parked* read) {
  for (auto it = parked_.begin(); it != parked_.end(); ++it) {
    if (it->get() != read) continue;
    ParkedPtr found = *it;
    parked_.erase(it);
    shared_.metrics.parked_reads.add(-1);
    return found;
  }
  return nullptr;
}

bool SourceFileImpl::overlaps_parked(const base::ByteRange& range) const {
  return std::any_of(parked_.begin(), parked_.end(),
                     [&](const auto& read) { return !read->range.intersect(range).empty(); });
}

std::vector<SourceFileImpl::Ready> SourceFileImpl::take_ready(const base::ByteRange& arrived, const Part* part) {
  std::vector<Ready> ready;
  for (auto it = parked_.begin(); it != parked_.end();) {
    if ((*it)->range.intersect(arrived).empty()) {
      ++it;
      continue;
    }
    auto pieces = locate((*it)->range);
    if (!pieces) {
      ++it;
      continue;
    }
    note_served((*it)->range);
    count_stall(**it, part, shared_.env.clock.now());
    ready.push_back({*it, std::move(*pieces)});
    it = parked_.erase(it);
    shared_.metrics.parked_reads.add(-1);
  }
  return ready;
}

void SourceFileImpl::look_after_parked(base::SteadyTime now) {
  std::vector<ParkedPtr> late;
  bool demand = false;
  {
    std::lock_guard lock(mutex_);
    for (auto it = parked_.begin(); it != parked_.end();) {
      if ((*it)->deadline > now) {
        // Such as a block that was dropped for another read's sake.
        if (next_missing((*it)->range.begin, (*it)->range.end) < (*it)->range.end) {
          want(Cause::kDemand, (*it)->range);
          demand = true;
        }
        ++it;
        continue;
      }
      late.push_back(*it);
      it = parked_.erase(it);
      shared_.metrics.parked_reads.add(-1);
    }
  }
  start_pending(demand, false);
  for (const auto& read : late) {
    end_read(read, {base::Code::kTimeout, fmt::format("{} [{}, {}): no answer within the deadline", info_.key,
                                                      read->range.begin, read->range.end)});
  }
}

SourceFile::Backing SourceFileImpl::backing() {
  find_cache_file();
  std::shared_ptr<cache::CacheFile> file;
  {
    std::lock_guard lock(mutex_);
    if (cache_file_ && cache_file_->dead()) set_cache_file(nullptr);
    file = cache_file_;
  }
  if (!file || !file->complete() || !file->verified()) return {};
  auto pin = file->pin();
  if (!pin) return {};
  {
    std::lock_guard lock(mutex_);
    origins_.read_all();
  }
  return {std::move(file), std::move(pin)};
}

void SourceFileImpl::stop() {
  std::list<ParkedPtr> parked;
  std::vector<store::RequestHandle> requests;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    for (auto& wants : wants_) wants.clear();
    parked.swap(parked_);
    shared_.metrics.parked_reads.add(-static_cast<int64_t>(parked.size()));
    for (const auto& part : parts_) part->give_up_legs(requests);
  }
  for (const auto& read : parked) end_read(read, {base::Code::kCancelled, "the mount ends"});
  for (const auto& request : requests) request->cancel();
  tell_settled();
}

void SourceFileImpl::drop_memory() {
  std::lock_guard lock(mutex_);
  memory_.clear();
  count_holding();
}

}  // namespace shardfs::fetch
