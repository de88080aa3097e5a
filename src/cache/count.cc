#include "cache/count.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cache/map_file.h"
#include "cache/ofd_lock.h"
#include "cache/removal.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

IndexRow row_of(const FileKey& key, const MapFile& map) {
  return {.key = key,
          .id = map.id(),
          .size_bytes = map.size_bytes(),
          .last_use_ms = map.last_use_ms(),
          .complete = map.complete()};
}

// Notes rows, and has them written now and then: the index remembers a bounded number.
class Noting {
 public:
  explicit Noting(Core& core) : core_(core) {}
  void note(IndexRow row) {
    core_.index->note(std::move(row));
    if (++noted_ % kRowsPerWrite == 0) static_cast<void>(core_.index->write());
  }

 private:
  static constexpr uint64_t kRowsPerWrite = 4096;
  Core& core_;
  uint64_t noted_ = 0;
};

// One pass. Everything runs under the page lock: no mount can begin or end a fill, or make or remove a map meanwhile.
class Count {
 public:
  Count(Core& core, std::vector<FileKey> complete) : core_(core), complete_(std::move(complete)) {}

  Result<uint64_t> run() {
    auto walked = walk(
        core_.disk, core_.folder,
        [&](const std::string& path) {
          if (const auto stat = core_.disk.stat(path)) bytes_ += stat->allocated_bytes;
        },
        [&](const FoundFile& file) { bytes_ += cost_of(file); });
    if (!walked) return tl::unexpected(walked.error());
    return bytes_;
  }

  std::vector<IndexRow> rows;  // that the index lacks

 private:
  // A mount holds it, or a reader through the kernel; else it is locked against mounts until data_fd is closed.
  bool in_use(int data_fd) { return !try_lock(data_fd, LockKind::kExclusive, kWholeLock) || open_elsewhere(data_fd); }

  void drop(const FoundFile& file) {
    for (const auto kind : {FileKind::kUnfinishedMap, FileKind::kMap, FileKind::kData}) {
      static_cast<void>(core_.disk.unlink(core_.folder.path_of(file.key, kind)));
    }
  }

  uint64_t cost_of(const FoundFile& file) {
    if (file.map && file.data && !file.unfinished_map) {
      if (const uint64_t bytes = cost_if_complete(file.key); bytes != 0) return bytes;
    }
    auto data_fd = core_.disk.open(core_.folder.path_of(file.key, FileKind::kData), O_RDWR);
    if (!data_fd) {
      if (data_fd.error().code == Code::kNotFound) drop(file);
      return 0;
    }
    if (!file.map || file.unfinished_map) {
      // Being made by a mount that lives (then its reservation counts it), or litter.
      if (in_use(data_fd->get())) return file.map ? cost_of_map(file.key, data_fd->get()) : 0;
      if (!file.map) {
        drop(file);
        return 0;
      }
      static_cast<void>(core_.disk.unlink(core_.folder.path_of(file.key, FileKind::kUnfinishedMap)));
    }
    return cost_of_map(file.key, data_fd->get());
  }

  // Without opening anything, for what the index knows to be complete; 0 if it must be looked at.
  uint64_t cost_if_complete(const FileKey& key) {
    if (!std::binary_search(complete_.begin(), complete_.end(), key)) return 0;
    const auto data = core_.disk.stat(core_.folder.path_of(key, FileKind::kData));
    const auto map = core_.disk.stat(core_.folder.path_of(key, FileKind::kMap));
    if (!data || !map || data->size_bytes == 0 || data->allocated_bytes < data->size_bytes) return 0;
    return core_.charges.of_empty_file(map->size_bytes, block_count_of(data->size_bytes)) +
           core_.charges.of_blocks(data->size_bytes);
  }

  uint64_t cost_of_map(const FileKey& key, int data_fd) {
    const std::string map_path = core_.folder.path_of(key, FileKind::kMap);
    auto map = MapFile::open(core_.disk, map_path);
    const auto data = core_.disk.stat(data_fd);
    if (!data) return 0;
    const bool damaged =
        (!map && map.error().code == Code::kInvalid) || (map && (data->size_bytes != map->size_bytes() || map->dead()));
    if (damaged && !in_use(data_fd)) {
      drop({key});
      return 0;
    }
    if (!map) return data->allocated_bytes;
    const auto cost = charge_of(core_, map_path);
    if (!cost) return data->allocated_bytes;
    rows.push_back(row_of(key, *map));
    if (!map->was_complete()) punch_litter(*map, data_fd, *data, *cost);
    return *cost;
  }

  // What a dead mount wrote of a block without finishing it.
  void punch_litter(const MapFile& map, int data_fd, const base::FileStat& data, uint64_t cost) {
    const uint64_t without_blocks = core_.charges.of_empty_file(map.file_bytes(), map.block_count());
    if (data.allocated_bytes + without_blocks <= cost) return;
    for (uint32_t block = 0; block < map.block_count(); ++block) {
      if (map.state(block) != kAbsent || !first_locked(map.fd(), fill_lock(block)).empty()) continue;
      static_cast<void>(core_.disk.punch(data_fd, range_of_block(map.size_bytes(), block)));
    }
  }

  Core& core_;
  const std::vector<FileKey> complete_;  // sorted
  uint64_t bytes_ = 0;
};

}  // namespace

Result<void> count_folder(Core& core) {
  if (!core.folder_is_ours()) return base::fail(Code::kCacheIo, "the cache folder was removed or replaced");
  auto complete = core.index->complete_keys();
  std::vector<FileKey> keys = complete ? std::move(*complete) : std::vector<FileKey>();
  std::sort(keys.begin(), keys.end());
  Count count(core, std::move(keys));
  auto counted = core.budget->count([&] { return count.run(); });
  Noting noting(core);
  for (auto& row : count.rows) noting.note(std::move(row));
  return counted;
}

Result<void> fill_index(Core& core) {
  Noting noting(core);
  const auto note = [&](const FoundFile& file) {
    if (!file.map) return;
    const std::string path = core.folder.path_of(file.key, FileKind::kMap);
    if (const auto map = MapFile::open(core.disk, path)) {
      noting.note(row_of(file.key, *map));
    }
  };
  return walk(
      core.disk, core.folder, [](const std::string&) {}, note);
}

}  // namespace shardfs::cache
