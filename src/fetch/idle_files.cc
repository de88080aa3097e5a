#include "fetch/idle_files.h"

#include <algorithm>

#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// Source: the shards that the two to eight workers of a job have open in turn.
constexpr size_t kKept = 16;

}  // namespace

void IdleFiles::add(const std::shared_ptr<SourceFileImpl>& file) {
  std::weak_ptr<SourceFileImpl> oldest;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(files_, [&](const auto& kept) { return kept.expired() || kept.lock() == file; });
    files_.push_back(file);
    if (files_.size() <= kKept) return;
    oldest = files_.front();
    files_.pop_front();
  }
  if (const auto gone = oldest.lock()) gone->let_go_of_cache_file();
}

bool IdleFiles::release_all() {
  std::deque<std::weak_ptr<SourceFileImpl>> files;
  {
    std::lock_guard lock(mutex_);
    files.swap(files_);
  }
  bool released = false;
  for (const auto& kept : files) {
    if (const auto file = kept.lock()) released = file->let_go_of_cache_file() || released;
  }
  return released;
}

}  // namespace shardfs::fetch
