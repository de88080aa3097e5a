#include "cache/removal.h"

#include <fcntl.h>

#include "cache/map_file.h"
#include "cache/ofd_lock.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

uint64_t charge_of_map(const Core& core, const MapFile& map) {
  uint64_t bytes = core.charges.of_empty_file(map.file_bytes(), map.block_count());
  // A bad block of a complete file is written again in its place: it keeps its space.
  if (map.was_complete()) return bytes + core.charges.of_blocks(map.size_bytes());
  base::ByteRange filling = first_locked(map.fd(), all_fill_locks(map.block_count()));
  for (uint32_t block = 0; block < map.block_count(); ++block) {
    const base::ByteRange lock = fill_lock(block);
    if (!filling.empty() && lock.begin >= filling.end) {
      filling = first_locked(map.fd(), {lock.begin, all_fill_locks(map.block_count()).end});
    }
    if (map.state(block) != kAbsent && !filling.contains(lock.begin)) {
      bytes += core.charges.of_block(map.size_bytes(), block);
    }
  }
  return bytes;
}

}  // namespace

Result<uint64_t> charge_of(Core& core, const std::string& map_path) {
  const auto map = MapFile::open(core.disk, map_path);
  if (!map) return tl::unexpected(map.error());
  return charge_of_map(core, *map);
}

Removed remove_file(Core& core, const FileKey& key) {
  const std::string path = core.folder.path_of(key, FileKind::kData);
  auto fd = core.disk.open(path, O_RDWR);
  if (!fd) return {fd.error().code == Code::kNotFound ? Removal::kGone : Removal::kFailed};
  if (!try_lock(fd->get(), LockKind::kExclusive, kWholeLock)) return {Removal::kInUse};
  const auto stat = core.disk.stat(fd->get());
  if (!stat) return {Removal::kFailed};
  if (stat->links == 0) return {Removal::kGone};
  if (open_elsewhere(fd->get())) return {Removal::kInUse};
  // With the lock: whoever pins a file has it open meanwhile. If the index can't say, nothing leaves.
  const auto pinned = core.index->pinned(key);
  if (!pinned || *pinned) return {pinned ? Removal::kPinned : Removal::kFailed};
  return remove_locked_file(core, key, std::move(*fd));
}

Removed remove_locked_file(Core& core, const FileKey& key, base::UniqueFd data_fd) {
  const std::string map_path = core.folder.path_of(key, FileKind::kMap);
  const auto charge = charge_of(core, map_path);
  Removed removed;
  if (charge) {
    // The map goes first and with it the file's cost, which stays reserved until the data are gone too.
    const auto step = [&] { return core.disk.unlink(map_path); };
    if (auto done = core.budget->uncommit(*charge, step); !done) {
      core.health.note_write_failure(done.error());
      return removed;
    }
  } else if (charge.error().code == Code::kInvalid) {
    core.budget->want_count();  // what a damaged map stood for is not known
    if (!core.disk.unlink(map_path)) return removed;
  } else if (charge.error().code != Code::kNotFound) {
    return removed;
  }
  const auto unlinked = core.disk.unlink(core.folder.path_of(key, FileKind::kData));
  data_fd.reset();
  removed.bytes = charge.value_or(0);
  core.budget->release(removed.bytes);
  if (!unlinked && unlinked.error().code != Code::kNotFound) {
    core.health.note_write_failure(unlinked.error());
    core.budget->want_count();  // data without a map: a count tries again to remove them
    removed.bytes = 0;
    return removed;
  }
  removed.what = Removal::kRemoved;
  return removed;
}

bool mark_open_file_dead(Core& core, const FileKey& key) {
  if (core.index->pinned(key).value_or(true)) return false;
  auto fd = core.disk.open(core.folder.path_of(key, FileKind::kData), O_RDWR);
  if (!fd || !try_lock(fd->get(), LockKind::kExclusive, kPinLock)) return false;
  if (first_locked(fd->get(), kOpenLock).empty()) return false;
  auto map = MapFile::open(core.disk, core.folder.path_of(key, FileKind::kMap));
  return map && !map->dead() && map->set_dead(core.disk).has_value();
}

}  // namespace shardfs::cache
