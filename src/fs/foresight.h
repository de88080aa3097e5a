// Foresight: from the opens and closes of files to what is fetched before it is asked for: small files of the same
// directory or its siblings, and the next shards. It joins the policies (by directory) with names that the tree knows,
// and hands a bounded number of files at once to fetch. It knows nothing of reads: that is fetch's own policy.
// A guess never asks the store for names, except when all directories of one parent are wanted.
// Thread rule: thread-safe. mutex_ is held for the plans only, never across a call of tree, fetcher, cache or executor.
// on_open and on_close never wait: what is to be done is done by a task of the executor, one at a time.
// Decision: docs/decisions/0009-readahead.md.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "cache/cache.h"
#include "fetch/fetcher.h"
#include "fs/file_system.h"
#include "fs/meters.h"
#include "fs/shard_plan.h"
#include "fs/small_file_plan.h"
#include "tree/tree.h"

namespace shardfs::fs {

class Foresight : public std::enable_shared_from_this<Foresight> {
 public:
  /// key_prefix: of the mount. memory_bytes: of the mount, for received bytes.
  Foresight(std::string key_prefix, uint64_t memory_bytes, tree::Tree& tree, fetch::Fetcher& fetcher,
            cache::Cache* cache, base::Executor& executor, Meters& meters);

  /// passthrough: the kernel reads it by itself, so all of it is in the cache. True: on_close is to be called for it.
  bool on_open(fetch::SourceFile& source, uint32_t process, bool passthrough);
  void on_close(const store::ObjectInfo& info);
  /// A reader of it comes to its end: see Fetcher::on_scan.
  void on_scan(const store::ObjectInfo& info);
  HintReply hint(std::span<const std::string> paths, bool append);
  /// Nothing is begun after it, and no task of it runs. The callbacks that are still to come do nothing.
  void close();

 private:
  using Source = std::shared_ptr<fetch::SourceFile>;
  /// A small file that was fetched and that nothing but this keeps in memory.
  struct Held {
    SmallFilePlan::DirectoryPtr directory;
    size_t index = 0;
    uint64_t bytes = 0;
    Source source;
  };
  using HeldKey = std::pair<const SmallFilePlan::Directory*, size_t>;

  std::pair<std::string, std::string_view> split(std::string_view key) const;
  void open_small(const std::string& directory, const ListingPtr& listing, size_t index, bool resident);
  void open_shard(const std::string& directory, const ListingPtr& listing, std::string_view name, uint32_t process,
                  bool resident);
  void wake();
  void run();
  /// Does one thing that is to be done; false if there is nothing.
  bool step(uint64_t free_bytes);
  void ask(const SmallFilePlan::Question& question);
  void fetch_small(const SmallFilePlan::Wanted& wanted);
  void fetch_shard(const ShardPlan::Guess& guess, uint64_t free_bytes);
  /// Of received bytes that wait for their reader, or for the disk: small files and next shards so much each.
  uint64_t ahead_limit_bytes() const { return cache_ != nullptr ? memory_bytes_ / 2 : memory_bytes_ / 4; }
  uint64_t free_bytes() const;

  const std::string key_prefix_;
  const uint64_t memory_bytes_;
  tree::Tree& tree_;
  fetch::Fetcher& fetcher_;
  cache::Cache* const cache_;
  base::Executor& executor_;
  Meters& meters_;

  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  bool closed_ = false;
  bool running_ = false;  // a task is posted or runs
  SmallFilePlan small_;
  ShardPlan shards_;
  size_t small_under_way_ = 0;
  uint64_t small_bytes_ = 0;  // of buffers: under way, and held
  std::list<Held> held_;      // oldest first; without a cache only
  std::map<HeldKey, std::list<Held>::iterator> held_places_;
};

}  // namespace shardfs::fs
