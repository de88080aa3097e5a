#include "cache/file_table.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "cache/evictor.h"
#include "cache/file.h"
#include "cache/share.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

// As often as another mount makes or removes the file at the same time.
constexpr int kTries = 8;

Result<OpenPair> open_or_make(Core& core, const FileKey& key, const store::ObjectId& id, uint64_t size_bytes,
                              FileTable::Wish wish) {
  for (int tries = 0; tries < kTries; ++tries) {
    auto pair = open_pair(core, key, id, size_bytes);
    if (pair || pair.error().code != Code::kNotFound || wish != FileTable::Wish::kMayMake) return pair;
    const uint64_t needed = core.charges.of_object(id, size_bytes);
    if (needed > core.budget->limit_bytes()) {
      base::warn_once("cache:larger", "{} does not fit into the cache of {}: read past it", id.key,
                      base::format_bytes(core.limit_bytes()));
      return base::fail(Code::kCacheFull, "it does not fit into the cache");
    }
    if (core.health.failing()) return base::fail(Code::kCacheFull, "the cache's disk is failing");
    auto& evictor = *core.evictor;
    if (evictor.policy().admits_whole_objects_only() && !evictor.admits(needed, id)) {
      return base::fail(Code::kCacheFull, "not admitted");
    }
    if (!core.share->enter(id, needed)) return base::fail(Code::kCacheFull, "more than this mount's share");
    auto made = make_pair(core, key, id, size_bytes);
    if (!made) core.share->leave(needed);
    if (made || made.error().code != Code::kChanged) return made;
  }
  return base::fail(Code::kCacheFull, "taken by another mount");
}

}  // namespace

std::shared_ptr<File> FileTable::get(const std::shared_ptr<Core>& core, const store::ObjectId& id, uint64_t size_bytes,
                                     Wish wish) {
  if (size_bytes == 0 || size_bytes / kBlockBytes >= UINT32_MAX - 1) return nullptr;
  return get(core, {core->name_space, hash_of(id, size_bytes)}, id, size_bytes, wish);
}

std::shared_ptr<File> FileTable::get(const std::shared_ptr<Core>& core, const FileKey& key, const store::ObjectId& id,
                                     uint64_t size_bytes, Wish wish) {
  std::shared_ptr<File> existing;  // outlives the lock: its end takes it too
  {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] {
      const auto entry = entries_.find(key);
      return entry == entries_.end() || !entry->second.opening;
    });
    auto& entry = entries_[key];
    existing = entry.file.lock();
    if (existing && !existing->dead()) return existing->id() == id ? existing : nullptr;
    entry = Entry{.file = {}, .address = nullptr, .opening = true};
  }
  existing.reset();  // if it was the last holder of a dead file, that is removed here
  auto pair = open_or_make(*core, key, id, size_bytes, wish);
  std::shared_ptr<File> file;
  if (pair) {
    file = std::make_shared<File>(core, key, std::move(*pair), wish != Wish::kOnlyLook);
  } else if (pair.error().code == Code::kIntegrity || pair.error().code == Code::kUnsupported) {
    base::warn_once("cache:" + key.name_space + to_hex(key.hash), "cache: {}", pair.error().message);
  } else if (pair.error().code == Code::kCacheIo ||
             (pair.error().code == Code::kCacheFull && pair.error().sys_errno != 0)) {  // such as ENOSPC
    core->health.note_write_failure(pair.error());
  }
  {
    const std::lock_guard guard(mutex_);
    if (file) {
      entries_[key] = Entry{.file = file, .address = file.get(), .opening = false};
    } else {
      entries_.erase(key);
    }
  }
  opened_.notify_all();
  return file;
}

std::vector<std::shared_ptr<File>> FileTable::all() {
  std::vector<std::shared_ptr<File>> files;
  const std::lock_guard guard(mutex_);
  files.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) {
    if (auto file = entry.file.lock()) files.push_back(std::move(file));
  }
  return files;
}

void FileTable::note_use(const FileKey& key, int64_t ms) {
  std::vector<std::shared_ptr<File>> used;  // let go after the lock
  const std::lock_guard guard(mutex_);
  const auto begin = entries_.lower_bound({key.name_space, {key.hash.high, 0}});
  for (auto at = begin; at != entries_.end() && at->first.name_space == key.name_space; ++at) {
    if (at->first.hash.high != key.hash.high) break;
    if (auto file = at->second.file.lock()) used.push_back(std::move(file));
  }
  for (const auto& file : used) file->note_use(ms);
}

void FileTable::forget(const FileKey& key, const File* file) {
  const std::lock_guard guard(mutex_);
  const auto entry = entries_.find(key);
  if (entry != entries_.end() && entry->second.address == file) entries_.erase(entry);
}

}  // namespace shardfs::cache
