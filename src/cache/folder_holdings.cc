#include "cache/folder_holdings.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "base/units.h"
#include "cache/checker.h"
#include "cache/evictor.h"
#include "cache/file.h"
#include "cache/file_table.h"
#include "cache/map_file.h"
#include "cache/ofd_lock.h"
#include "cache/removal.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

// Source: below it a mount's overhead leaves no room for a file.
constexpr uint64_t kSmallestFolderLimit = 8 << 20;
// Rows of the index at once. Source: a few 100 KiB, and its lock for about a millisecond.
constexpr size_t kRows = 1024;

tl::unexpected<base::Error> not_there(const std::string& what) {
  return base::fail(Code::kNotFound, what + " is not in the cache");
}

}  // namespace

Result<IndexRow> FolderHoldings::row_of(const FileKey& key) {
  static_cast<void>(core_->index->write());
  auto row = core_->index->row(key);
  if (!row) return tl::unexpected(row.error());
  if (!*row) return not_there(to_string(key));
  return std::move(**row);
}

Result<Holding> FolderHoldings::holding_of(const IndexRow& row) {
  Holding holding;
  holding.name = to_string(row.key);
  holding.id = row.id;
  holding.size_bytes = row.size_bytes;
  holding.pinned = row.pinned;
  const std::string map_path = core_->folder.path_of(row.key, FileKind::kMap);
  const auto map = MapFile::open(core_->disk, map_path);
  if (!map) return not_there(row.id.key);
  holding.last_use_ms = std::max(row.last_use_ms, map->last_use_ms());
  for (uint32_t block = 0; block < map->block_count(); ++block) {
    if (map->state(block) != kAbsent) holding.resident_bytes += range_of_block(row.size_bytes, block).size();
  }
  holding.complete = map->complete() && !map->dead();
  holding.verified = holding.complete && map->all_in(core_->boot_tag);
  holding.cost_bytes = charge_of(*core_, map_path).value_or(0);
  const auto data = core_->disk.open(core_->folder.path_of(row.key, FileKind::kData), O_RDWR);
  if (!data) return not_there(row.id.key);
  holding.open = !first_locked(data->get(), kWholeLock).empty();
  return holding;
}

Result<void> FolderHoldings::each_row(const std::function<void(const IndexRow&)>& visit) {
  static_cast<void>(core_->index->write());
  FileKey after;
  for (;;) {
    const auto rows = core_->index->rows_after(after, kRows);
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty()) return {};
    for (const auto& row : *rows) visit(row);
    after = rows->back().key;
  }
}

Result<Holdings::Page> FolderHoldings::list(const std::string& after, size_t count) {
  const auto key = parse_key(after);
  static_cast<void>(core_->index->write());
  const auto rows = core_->index->rows_after(key.value_or(FileKey{}), count);
  if (!rows) return tl::unexpected(rows.error());
  Page page;
  for (const auto& row : *rows) {
    if (auto holding = holding_of(row)) page.entries.push_back(std::move(*holding));
  }
  if (rows->size() == count && count > 0) page.next = to_string(rows->back().key);
  return page;
}

Result<std::vector<Holding>> FolderHoldings::matching(const std::string& bucket, const std::string& key) {
  const bool below = key.empty() || key.ends_with('/');
  std::vector<Holding> found;
  const auto visited = each_row([&](const IndexRow& row) {
    if (row.id.bucket != bucket || !(below ? row.id.key.starts_with(key) : row.id.key == key)) return;
    if (auto holding = holding_of(row)) found.push_back(std::move(*holding));
  });
  if (!visited) return tl::unexpected(visited.error());
  return found;
}

Result<Holding> FolderHoldings::find(const std::string& name) {
  const auto key = parse_key(name);
  if (!key) return not_there(name);
  const auto row = row_of(*key);
  if (!row) return tl::unexpected(row.error());
  return holding_of(*row);
}

Result<Holding> FolderHoldings::find(const store::ObjectId& id, uint64_t size_bytes) {
  auto found = find(to_string(FileKey{core_->name_space, hash_of(id, size_bytes)}));
  if (!found && found.error().code == Code::kNotFound) return not_there(id.key);
  return found;
}

Result<void> FolderHoldings::may_pin(const IndexRow& row, uint64_t bytes) {
  const auto pinned = core_->index->pinned_bytes();
  if (!pinned) return tl::unexpected(pinned.error());
  static_cast<void>(core_->budget->use());  // the folder's limit as it is now
  const uint64_t limit = core_->budget->limit_bytes();
  if (*pinned + bytes <= limit) return {};
  return base::fail(Code::kCacheFull, fmt::format("{} is not pinned: it takes {}, {} are pinned already, and the limit "
                                                  "of the cache is {}",
                                                  row.id.key, base::format_bytes(bytes), base::format_bytes(*pinned),
                                                  base::format_bytes(core_->limit_bytes())));
}

Result<Holding> FolderHoldings::pin_row(const IndexRow& row, bool may_make) {
  const std::lock_guard guard(pin_mutex_);
  const uint64_t bytes = core_->charges.of_object(row.id, row.size_bytes);
  const auto pinned = core_->index->pinned(row.key);
  if (!pinned) return tl::unexpected(pinned.error());
  if (!*pinned) {
    if (auto may = may_pin(row, bytes); !may) return tl::unexpected(may.error());
  }
  // Held open until the index has it: whoever removes files asks the index once he has locked them against this.
  std::shared_ptr<File> made;
  auto pair = open_pair(*core_, row.key, row.id, row.size_bytes);
  if (!pair && pair.error().code == Code::kNotFound && may_make) {
    made = core_->files->get(core_, row.id, row.size_bytes, FileTable::Wish::kMayMake);
    // What a policy keeps for others gives way to what the user wants to keep.
    if (!made && core_->evictor->make_room(bytes)) {
      made = core_->files->get(core_, row.id, row.size_bytes, FileTable::Wish::kMayMake);
    }
    if (!made) {
      return base::fail(Code::kCacheFull,
                        fmt::format("{} is not pinned: there is no space for its {}; other files are in use or pinned",
                                    row.id.key, base::format_bytes(bytes)));
    }
  } else if (!pair) {
    return tl::unexpected(pair.error());
  } else {
    IndexRow noted = row;  // the index may lack it
    noted.last_use_ms = pair->map.last_use_ms();
    noted.complete = pair->map.complete();
    core_->index->note(std::move(noted));
  }
  if (auto put = core_->index->pin(row.key, bytes); !put) return tl::unexpected(put.error());
  const auto now = row_of(row.key);
  if (!now) return tl::unexpected(now.error());
  return holding_of(*now);
}

Result<Holding> FolderHoldings::pin(const store::ObjectId& id, uint64_t size_bytes) {
  if (size_bytes == 0) return base::fail(Code::kNotFound, id.key + " is empty: there is nothing to pin");
  IndexRow row;
  row.key = {core_->name_space, hash_of(id, size_bytes)};
  row.id = id;
  row.size_bytes = size_bytes;
  return pin_row(row, true);
}

Result<Holding> FolderHoldings::pin(const std::string& name) {
  const auto key = parse_key(name);
  if (!key) return not_there(name);
  const auto row = row_of(*key);
  if (!row) return tl::unexpected(row.error());
  return pin_row(*row, false);
}

Result<Holding> FolderHoldings::unpin(const std::string& name) {
  const auto key = parse_key(name);
  if (!key) return not_there(name);
  if (auto done = core_->index->unpin(*key); !done) return tl::unexpected(done.error());
  core_->evictor->something_closed();
  const auto row = row_of(*key);
  if (!row) return tl::unexpected(row.error());
  return holding_of(*row);
}

Evicted FolderHoldings::evict(const std::string& name) {
  const auto key = parse_key(name);
  if (!key) return Evicted::kGone;
  const auto row = row_of(*key);
  if (!row) return row.error().code == Code::kNotFound ? Evicted::kGone : Evicted::kFailed;
  if (row->pinned) return Evicted::kPinned;
  IndexRow removed = *row;
  removed.last_use_ms = INT64_MAX;  // it goes, however lately it was used
  const Removal what = core_->evictor->evict(removed);
  static_cast<void>(core_->index->write());
  switch (what) {
    case Removal::kRemoved: return Evicted::kEvicted;
    case Removal::kInUse: return Evicted::kInUse;
    case Removal::kPinned: return Evicted::kPinned;
    case Removal::kGone: return Evicted::kGone;
    case Removal::kFailed: return Evicted::kFailed;
  }
  return Evicted::kFailed;
}

Result<Holdings::Check> FolderHoldings::check(const std::string& after, std::chrono::milliseconds duration) {
  static_cast<void>(core_->index->write());
  Checker checker(core_, after);
  Check progress;
  const auto end = core_->clock.now() + duration;
  for (;;) {
    const auto more = checker.step(progress);
    if (!more) return tl::unexpected(more.error());
    progress.next = checker.place();
    if (!*more || core_->clock.now() >= end) return progress;
  }
}

bool FolderHoldings::admits(const store::ObjectId& id, uint64_t bytes) { return core_->evictor->admits(bytes, id); }

Result<Holdings::Limit> FolderHoldings::limit() {
  const auto pinned = core_->index->pinned_bytes();
  if (!pinned) return tl::unexpected(pinned.error());
  const auto space = core_->disk.space(core_->folder.path());
  if (!space) return tl::unexpected(space.error());
  Limit limit;
  limit.used_bytes = core_->budget->use().sum();
  limit.limit_bytes = core_->limit_bytes();
  limit.of_folder = core_->budget->folder_limit_bytes() != 0;
  limit.pinned_bytes = *pinned;
  limit.disk_bytes = space->total_bytes;
  return limit;
}

Result<Holdings::Limit> FolderHoldings::set_limit(base::SizeOrPercent wanted) {
  const auto before = limit();
  if (!before) return before;
  const uint64_t bytes = wanted.of(before->disk_bytes);
  if (bytes < kSmallestFolderLimit) {
    return base::fail(Code::kInvalid, fmt::format("a limit of {}: at least {}", base::format_bytes(bytes),
                                                  base::format_bytes(kSmallestFolderLimit)));
  }
  if (bytes < before->pinned_bytes) {
    return base::fail(Code::kInvalid, fmt::format("a limit of {}: {} are pinned; unpin some first",
                                                  base::format_bytes(bytes), base::format_bytes(before->pinned_bytes)));
  }
  if (auto set = core_->budget->set_folder_limit(bytes); !set) return tl::unexpected(set.error());
  core_->evictor->something_closed();
  core_->evictor->shrink_to_limit();
  return limit();
}

}  // namespace shardfs::cache
