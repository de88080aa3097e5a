// Opening and making the two files of one object on disk, against other mounts that do the same.
#include <fcntl.h>

#include <chrono>
#include <thread>

#include "cache/evictor.h"
#include "cache/file_table.h"
#include "cache/ofd_lock.h"
#include "cache/removal.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

// A file can vanish or appear between two looks as often as another mount evicts or makes it.
constexpr int kTries = 8;
// Looked at again for a map that its maker, who has it open, is about to write: 50 us on ext4, longer on a busy
// machine.
constexpr std::chrono::milliseconds kMakerPause{2};
constexpr int kMakerPauses = 500;

Result<void> make_directory(Core& core, const std::string& path, const store::ObjectId& id) {
  if (core.disk.stat(path)) return {};  // another thread or mount was faster
  const uint64_t bytes = core.charges.unit_bytes;
  if (!core.evictor->reserve(bytes, id)) return base::fail(Code::kCacheFull, "no space for a directory");
  auto made = core.disk.make_directories(path);
  if (made) made = core.budget->commit(bytes, []() -> Result<void> { return {}; });
  if (!made) core.evictor->release(bytes);
  return made;
}

// Writes the map beside the data, gives it its name and counts it; the caller holds the exclusive lock on the data.
Result<void> publish_map(Core& core, const FileKey& key, std::span<const std::byte> image, uint64_t charge) {
  const std::string unfinished = core.folder.path_of(key, FileKind::kUnfinishedMap);
  auto fd = core.disk.open(unfinished, O_RDWR | O_CREAT | O_TRUNC);
  if (!fd) return tl::unexpected(fd.error());
  auto done = core.disk.write_at(fd->get(), image, 0);
  if (done) {
    done = core.budget->commit(charge,
                               [&] { return core.disk.rename(unfinished, core.folder.path_of(key, FileKind::kMap)); });
  }
  if (!done) static_cast<void>(core.disk.unlink(unfinished));
  return done;
}

}  // namespace

Result<OpenPair> open_pair(Core& core, const FileKey& key, const store::ObjectId& id, uint64_t size_bytes) {
  const std::string data_path = core.folder.path_of(key, FileKind::kData);
  const std::string map_path = core.folder.path_of(key, FileKind::kMap);
  int pauses = 0;
  for (int tries = 0; tries < kTries; ++tries) {
    auto fd = core.disk.open(data_path, O_RDWR);
    if (!fd) return tl::unexpected(fd.error());
    // Waits for a mount that is making or removing it just now.
    if (!wait_lock(fd->get(), LockKind::kShared, kOpenLock)) {
      return base::fail(Code::kCacheIo, "no lock on " + data_path);
    }
    const auto stat = core.disk.stat(fd->get());
    if (!stat) return tl::unexpected(stat.error());
    if (stat->links == 0) continue;
    auto map = MapFile::open(core.disk, map_path);
    if (map && !map->dead() && stat->size_bytes == map->size_bytes()) {
      if (map->id() != id || map->size_bytes() != size_bytes) {
        return base::fail(Code::kIntegrity, "two objects have the hash of " + data_path);
      }
      return OpenPair{std::move(*fd), std::move(*map)};
    }
    if (!map && map.error().code != Code::kNotFound && map.error().code != Code::kInvalid) {
      return tl::unexpected(map.error());
    }
    // Dead, damaged, cut, or its maker died. If nobody else has it open it goes, and the caller may make it anew.
    if (!try_lock(fd->get(), LockKind::kExclusive, kWholeLock) || open_elsewhere(fd->get())) {
      const bool being_made = !map && map.error().code == Code::kNotFound;
      if (being_made && pauses++ < kMakerPauses) {
        fd->reset();
        std::this_thread::sleep_for(kMakerPause);
        --tries;
        continue;
      }
      return base::fail(Code::kCacheFull, data_path + " is dead and still in use");
    }
    if (remove_locked_file(core, key, std::move(*fd)).what != Removal::kRemoved) {
      return base::fail(Code::kCacheIo, data_path + " can't be removed");
    }
  }
  return base::fail(Code::kCacheFull, data_path + " comes and goes");
}

Result<OpenPair> make_pair(Core& core, const FileKey& key, const store::ObjectId& id, uint64_t size_bytes) {
  const std::string data_path = core.folder.path_of(key, FileKind::kData);
  const auto image = MapFile::image(id, size_bytes, core.wall_ms());
  const uint64_t charge = core.charges.of_empty_file(image.size(), block_count_of(size_bytes));
  if (!core.folder_is_ours()) return base::fail(Code::kCacheIo, "the cache folder was removed or replaced");
  if (!core.evictor->reserve(charge, id)) return base::fail(Code::kCacheFull, "no space for " + data_path);
  const auto give_up = [&](base::Error error) {
    core.evictor->release(charge);
    return tl::unexpected(std::move(error));
  };
  auto fd = core.disk.open(data_path, O_RDWR | O_CREAT | O_EXCL);
  if (!fd && fd.error().code == Code::kNotFound) {
    if (auto made = make_directory(core, core.folder.directory_of(key), id); !made) return give_up(made.error());
    fd = core.disk.open(data_path, O_RDWR | O_CREAT | O_EXCL);
  }
  if (!fd) {
    if (fd.error().sys_errno == EEXIST) fd.error().code = Code::kChanged;
    return give_up(fd.error());
  }
  const auto taken = [&] { return give_up({Code::kChanged, data_path + " was taken by another mount"}); };
  // Another mount that looks at it meanwhile lets go of it soon, or has removed it.
  if (!wait_lock(fd->get(), LockKind::kExclusive, kWholeLock)) return taken();
  const auto stat = core.disk.stat(fd->get());
  if (!stat) return give_up(stat.error());
  if (stat->links == 0) return taken();
  auto done = core.disk.resize(fd->get(), size_bytes);
  if (done) done = publish_map(core, key, image, charge);
  if (!done) {
    static_cast<void>(core.disk.unlink(data_path));
    return give_up(done.error());
  }
  auto map = MapFile::open(core.disk, core.folder.path_of(key, FileKind::kMap));
  if (!map) return tl::unexpected(map.error());
  if (!try_lock(fd->get(), LockKind::kShared, kOpenLock)) return base::fail(Code::kCacheIo, "no lock on " + data_path);
  unlock(fd->get(), kPinLock);
  return OpenPair{std::move(*fd), std::move(*map)};
}

}  // namespace shardfs::cache
