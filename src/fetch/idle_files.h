// IdleFiles: the last few files that nobody reads any more but that keep their cache file open, so that a job which
// opens a shard for every sample does not pay for opening the cache file each time. An open cache file can't be
// evicted: so they are few, and let go of when the cache has no space. Thread rule: thread-safe. mutex_ is a leaf;
// files are called outside of it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

namespace shardfs::fetch {

class SourceFileImpl;

class IdleFiles {
 public:
  /// The file has no reader now. It may be called again for one that is here.
  void add(const std::shared_ptr<SourceFileImpl>& file);
  /// All of them let go of their cache files. True if there was one.
  bool release_all();

 private:
  std::mutex mutex_;
  std::deque<std::weak_ptr<SourceFileImpl>> files_;  // oldest first
};

}  // namespace shardfs::fetch
