#include "cache/file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cache/evictor.h"
#include "cache/ofd_lock.h"
#include "cache/removal.h"

namespace shardfs::cache {

using base::ByteRange;
using base::Code;
using base::Result;

namespace {

// Smaller objects are not synced: after a power cut their checksums tell, and they are cheap to fetch again.
// Source: a sync is a journal commit of 5 to 15 ms on ext4, twice a file; 8 MiB take as long to write.
constexpr uint64_t kSyncFromBytes = 8 << 20;

}  // namespace

class File::FilePin final : public Pin {
 public:
  explicit FilePin(std::shared_ptr<File> file) : file_(std::move(file)) {}
  ~FilePin() override { file_->unpin(); }

 private:
  const std::shared_ptr<File> file_;
};

File::File(std::shared_ptr<Core> core, FileKey key, OpenPair pair, bool used)
    : core_(std::move(core)),
      key_(std::move(key)),
      data_fd_(std::move(pair.data_fd)),
      writer_(core_->disk, data_fd_.get()),
      map_(std::move(pair.map)),
      last_use_ms_(used ? core_->wall_ms() : map_.last_use_ms()),
      saved_use_ms_(map_.last_use_ms()) {
  core_->index->note(row());
}

File::~File() {
  for (const auto& [block, reserved] : std::map(fills_)) undo_fill(block, true);
  writer_.close();
  save_use();
  core_->files->forget(key_, this);
  const auto stat = core_->disk.stat(data_fd_.get());
  if (map_.damaged()) core_->budget->want_count();  // what it stood for is not known any more
  if (stat && stat->links == 0) {
    core_->budget->want_count();  // removed by hand under us
  } else if (map_.dead() && try_lock(data_fd_.get(), LockKind::kExclusive, kWholeLock)) {
    if (!open_elsewhere(data_fd_.get())) remove_locked_file(*core_, key_, std::move(data_fd_));
    core_->index->note_removed(key_, INT64_MAX);
  }
  core_->evictor->something_closed();
}

bool File::has_block(uint32_t block) const { return block < block_count() && map_.state(block) != kAbsent; }

uint64_t File::resident_bytes() const {
  uint64_t bytes = 0;
  for (uint32_t block = 0; block < block_count(); ++block) {
    if (map_.state(block) != kAbsent) bytes += bytes_of(block).size();
  }
  return bytes;
}

bool File::verified() const {
  if (!complete()) return false;
  if (all_verified_.load(std::memory_order_relaxed)) return true;
  if (!map_.all_in(core_->boot_tag)) return false;
  all_verified_.store(true, std::memory_order_relaxed);
  return true;
}

void File::note_use(int64_t ms) {
  int64_t before = last_use_ms_.load(std::memory_order_relaxed);
  while (before < ms && !last_use_ms_.compare_exchange_weak(before, ms, std::memory_order_relaxed)) {
  }
}

void File::save_use() {
  const int64_t ms = last_use_ms_.load(std::memory_order_relaxed);
  if (saved_use_ms_.exchange(ms, std::memory_order_relaxed) == ms) return;
  core_->index->note_use(key_, ms);
  static_cast<void>(map_.set_last_use(core_->disk, ms));
}

IndexRow File::row() const {
  return {.key = key_,
          .id = id(),
          .size_bytes = size_bytes(),
          .last_use_ms = last_use_ms_.load(std::memory_order_relaxed),
          .complete = map_.complete()};
}

Result<void> File::read(ByteRange range, std::span<std::byte> into) {
  if (range.end > size_bytes() || range.empty() || into.size() != range.size()) {
    return base::fail(Code::kInvalid, fmt::format("cache read of [{}, {}) in {} bytes of {}", range.begin, range.end,
                                                  size_bytes(), id().key));
  }
  note_use(core_->wall_ms());
  const auto last = static_cast<uint32_t>((range.end - 1) / kBlockBytes);
  ByteRange ready = {range.begin, range.begin};  // verified, and not read yet
  const auto read_ready = [&] { return read_verified(ready, into.subspan(ready.begin - range.begin, ready.size())); };
  for (auto block = static_cast<uint32_t>(range.begin / kBlockBytes); block <= last; ++block) {
    const ByteRange part = bytes_of(block).intersect(range);
    const uint64_t state = map_.state(block);
    if (state == kAbsent) {
      return base::fail(Code::kNotFound, fmt::format("block {} of {} is not resident", block, id().key));
    }
    if (state == core_->boot_tag) {
      ready.end = part.end;
      continue;
    }
    if (auto got = read_ready(); !got) return got;
    if (auto got = read_checked(block, part, into.subspan(part.begin - range.begin, part.size())); !got) return got;
    ready = {part.end, part.end};
  }
  return read_ready();
}

Result<void> File::read_verified(ByteRange range, std::span<std::byte> into) {
  if (range.empty()) return {};
  auto got = core_->disk.read_at(data_fd_.get(), into, range.begin);
  if (!got) got.error().code = Code::kCacheIo;
  return got;
}

Result<void> File::read_checked(uint32_t block, ByteRange part, std::span<std::byte> into) {
  const ByteRange whole = bytes_of(block);
  std::vector<std::byte> buffer(part == whole ? 0 : whole.size());
  const std::span<std::byte> bytes = part == whole ? into : std::span(buffer);
  const uint64_t state = map_.state(block);
  const uint64_t wanted = map_.checksum(block);
  if (auto got = read_verified(whole, bytes); !got) return got;
  if (state == kAbsent || checksum_of(bytes) != wanted) {
    if (state != kAbsent) drop_bad_block(block, state, wanted);
    return base::fail(Code::kIntegrity,
                      fmt::format("block {} of {} in the cache is not what was written there", block, id().key));
  }
  mark_verified(block, state);
  if (part != whole) std::memcpy(into.data(), buffer.data() + (part.begin - whole.begin), part.size());
  return {};
}

void File::mark_verified(uint32_t block, uint64_t seen_state) {
  // The fill right keeps a block's entry from changing under us. Whoever has it now may mark it as well.
  if (seen_state == core_->boot_tag || !take_fill(block)) return;
  if (map_.state(block) == seen_state) static_cast<void>(map_.set_state(core_->disk, block, core_->boot_tag));
  drop_fill(block);
}

void File::drop_bad_block(uint32_t block, uint64_t seen_state, uint64_t seen_checksum) {
  if (!take_fill(block)) return;  // somebody else is at it
  if (map_.dead() || map_.state(block) != seen_state || map_.checksum(block) != seen_checksum) return drop_fill(block);
  core_->bad_blocks.add();
  base::log_warning("cache: block {} of {} is damaged on the disk and is dropped", block, id().key);
  if (map_.was_complete()) {
    // It may be mapped by a reader through the kernel: never punched, but written again in its place.
    auto dropped = map_.set_mending(core_->disk);
    if (dropped) dropped = map_.set_state(core_->disk, block, kAbsent);
    if (!dropped) static_cast<void>(map_.set_dead(core_->disk));
    core_->index->note(row());
    return drop_fill(block);
  }
  const uint64_t charge = charge_of(block);
  const auto step = [&] { return map_.set_state(core_->disk, block, kAbsent); };
  if (!core_->budget->uncommit(charge, step)) return drop_fill(block);
  set_reserved(block, charge);
  undo_fill(block, true);
}

File::Checked File::check_block(uint32_t block, BlockReader& reader) {
  const uint64_t state = map_.state(block);
  const uint64_t wanted = map_.checksum(block);
  if (dead() || state == kAbsent) return Checked::kAbsent;
  const auto bytes = reader.read(data_fd_.get(), bytes_of(block));
  // What can't be read is as good as lost; written again, the disk gives it another place.
  if (bytes && checksum_of(*bytes) == wanted) {
    mark_verified(block, state);
    return Checked::kGood;
  }
  if (map_.state(block) != state || map_.checksum(block) != wanted) return Checked::kAbsent;  // changed meanwhile
  drop_bad_block(block, state, wanted);
  return Checked::kBad;
}

bool File::take_fill(uint32_t block) {
  {
    const std::lock_guard guard(fills_mutex_);
    if (!fills_.try_emplace(block, 0).second) return false;
  }
  if (try_lock(map_.fd(), LockKind::kExclusive, fill_lock(block))) return true;
  const std::lock_guard guard(fills_mutex_);
  fills_.erase(block);
  return false;
}

void File::drop_fill(uint32_t block) {
  unlock(map_.fd(), fill_lock(block));
  const std::lock_guard guard(fills_mutex_);
  fills_.erase(block);
}

std::optional<uint64_t> File::reserved_for(uint32_t block) {
  const std::lock_guard guard(fills_mutex_);
  const auto place = fills_.find(block);
  return place == fills_.end() ? std::nullopt : std::optional(place->second);
}

void File::set_reserved(uint32_t block, uint64_t bytes) {
  const std::lock_guard guard(fills_mutex_);
  fills_[block] = bytes;
}

void File::undo_fill(uint32_t block, bool written) {
  if (written && map_.state(block) == kAbsent && !map_.was_complete()) {
    static_cast<void>(core_->disk.punch(data_fd_.get(), bytes_of(block)));
  }
  core_->evictor->release(reserved_for(block).value_or(0));
  drop_fill(block);
}

FillAnswer File::begin_fill(uint32_t block) {
  if (block >= block_count() || dead()) return FillAnswer::kRefused;
  if (has_block(block)) return FillAnswer::kResident;
  if (!take_fill(block)) return has_block(block) ? FillAnswer::kResident : FillAnswer::kBusy;
  if (has_block(block)) {
    drop_fill(block);
    return FillAnswer::kResident;
  }
  const uint64_t charge = charge_of(block);
  if (dead() || (charge > 0 && !core_->evictor->reserve(charge, id()))) {
    drop_fill(block);
    core_->refused_blocks.add();
    return FillAnswer::kRefused;
  }
  set_reserved(block, charge);
  return FillAnswer::kGranted;
}

Result<void> File::write_block(uint32_t block, std::span<const std::byte> data) {
  const auto reserved = reserved_for(block);
  if (!reserved) return base::fail(Code::kInvalid, "write of a block without the right to fill it");
  Result<void> done = {};
  if (data.size() != bytes_of(block).size()) {
    done = base::fail(Code::kInvalid, fmt::format("block {} of {} with {} bytes", block, id().key, data.size()));
    undo_fill(block, false);
    return done;
  }
  done = writer_.write(data, bytes_of(block).begin);
  if (done) done = map_.set_present(core_->disk, block, checksum_of(data), core_->boot_tag);
  // The lock goes under the page lock: a block is either in its filler's reservation, or counted, never both.
  if (done) {
    done = core_->budget->commit(*reserved, [&]() -> Result<void> {
      unlock(map_.fd(), fill_lock(block));
      return {};
    });
    if (!done) static_cast<void>(map_.set_state(core_->disk, block, kAbsent));
  }
  if (!done) {
    core_->health.note_write_failure(done.error());
    undo_fill(block, true);
    if (done.error().code != Code::kCacheFull) done.error().code = Code::kCacheIo;
    return done;
  }
  {
    const std::lock_guard guard(fills_mutex_);
    fills_.erase(block);
  }
  core_->written_bytes.add(data.size());
  core_->reserved_gauge.set(static_cast<int64_t>(core_->budget->own_reserved_bytes()));
  return {};
}

void File::abandon_fill(uint32_t block) {
  if (reserved_for(block)) undo_fill(block, false);
}

Result<bool> File::finish() {
  if (complete()) return true;
  if (dead() || !map_.all_present()) return false;
  writer_.close();
  const bool sync = size_bytes() >= kSyncFromBytes;
  if (auto synced = sync ? core_->disk.sync(data_fd_.get()) : Result<void>(); !synced) {
    give_up("its data can't be synced", synced.error());
    return tl::unexpected(synced.error());
  }
  auto published = map_.set_complete(core_->disk);
  // A reader may have dropped a bad block since they were all present.
  if (published && !map_.all_present()) published = base::fail(Code::kCacheIo, "a block was dropped meanwhile");
  if (published && sync) published = core_->disk.sync(map_.fd());
  if (!published) {
    give_up("its map can't be synced", published.error());
    return tl::unexpected(published.error());
  }
  core_->index->note(row());
  return complete();
}

void File::give_up(const char* why, const base::Error& error) {
  // After a failed sync the kernel may forget what it could not write: nothing of the file is to be trusted.
  base::log_warning("cache: {} is given up: {}: {}", id().key, why, error.message);
  static_cast<void>(map_.set_dead(core_->disk));
  core_->health.note_write_failure(error);
}

std::unique_ptr<Pin> File::pin() {
  const std::lock_guard guard(pins_mutex_);
  // Waits only for a mount that marks the file dead at this moment.
  if (pins_ == 0 && !wait_lock(data_fd_.get(), LockKind::kShared, kPinLock)) return nullptr;
  if (dead()) {
    if (pins_ == 0) unlock(data_fd_.get(), kPinLock);
    return nullptr;
  }
  ++pins_;
  return std::make_unique<FilePin>(shared_from_this());
}

void File::unpin() {
  {
    const std::lock_guard guard(pins_mutex_);
    if (--pins_ > 0) return;
    unlock(data_fd_.get(), kPinLock);
  }
  core_->evictor->something_closed();
}

Result<base::UniqueFd> File::backing_descriptor() {
  if (!complete()) return base::fail(Code::kInvalid, id().key + " is not complete");
  // By the descriptor and not by the name: it stays this file whatever happens to the folder.
  auto fd = core_->disk.open(fmt::format("/proc/self/fd/{}", data_fd_.get()), O_RDONLY);
  if (!fd) fd = core_->disk.open(core_->folder.path_of(key_, FileKind::kData), O_RDONLY);
  return fd;
}

}  // namespace shardfs::cache
