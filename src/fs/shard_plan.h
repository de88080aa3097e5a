// ShardPlan: which shards will be opened next, over all directories: a ShardOrder for each, and what became of its
// guesses. Guesses that do not come true are given up, so that they never pile up.
// Not a fetcher: it hands out names. Thread rule: confined to Foresight's lock; it calls nobody, and what it gives up
// is returned for the caller to cancel without that lock.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fetch/fetcher.h"
#include "fs/small_file_plan.h"
#include "readahead/shard_order.h"

namespace shardfs::fs {

class ShardPlan {
 public:
  using Source = std::shared_ptr<fetch::SourceFile>;
  struct Directory;
  using DirectoryPtr = std::shared_ptr<Directory>;
  struct Guess {
    DirectoryPtr directory;
    std::string path;  // of the directory
    ListingPtr listing;
    size_t index = 0;
    uint64_t number = 0;

    const tree::ListedName& listed() const { return listing->names[index]; }
  };

  ShardPlan() = default;
  ShardPlan(ShardPlan&&) = default;
  ShardPlan& operator=(ShardPlan&&) = default;
  ~ShardPlan() { clear(); }

  /// Whether on_open or hint want the names of this listing.
  bool needs_names(const std::string& path, const ListingPtr& listing) const;
  /// Whether the directory has a hint: then its small files are named here, too.
  bool is_hinted(const std::string& path) const;
  /// names: of all files, if they are needed. Returns guesses that were given up.
  std::vector<Source> on_open(const std::string& path, const ListingPtr& listing, std::vector<std::string> names,
                              std::string_view name, uint32_t process);
  /// What the open of this shard made expect is to be fetched now: its reader goes through it. Not if several processes
  /// read this one shard at once, unless they did that with another shard before: each took one for itself till then.
  void on_scan(const std::string& path, std::string_view name);
  void on_close(const std::string& path, std::string_view name);
  /// How many of the hinted names were taken. append: after those of the last hint, not instead of them.
  size_t hint(const std::string& path, const ListingPtr& listing, std::vector<std::string> names,
              std::vector<std::string> hinted, bool append);

  bool has_next() const { return !queue_.empty(); }
  /// The next guess that nothing was done about. Each is handed out once.
  std::optional<Guess> next();
  /// Its first window is on its way, and holds so many bytes of memory until it is opened, given up or in the cache.
  void begun(const Guess& guess, Source source, uint64_t bytes);
  void in_cache(const Guess& guess);
  /// Nothing can be fetched for it.
  void lost(const Guess& guess);
  /// Guesses in its directory have come true before, or it is a hint: all of the shard may be fetched.
  bool is_proven(const Guess& guess) const;
  /// Of memory, for the first windows of all guesses that stand.
  uint64_t bytes() const { return bytes_; }
  void clear();

 private:
  bool stands(const Guess& guess) const;
  DirectoryPtr directory_of(const std::string& path, const ListingPtr& listing, std::vector<std::string> names);
  void add(const DirectoryPtr& directory, std::vector<readahead::ShardOrder::Guess> guesses);
  void give_up_old(Directory& directory, std::vector<Source>& given_up);
  void forget(Directory& directory, const std::string& name, std::vector<Source>* given_up);

  struct Entry {
    DirectoryPtr directory;
    std::list<std::string>::iterator place;
  };
  std::unordered_map<std::string, Entry> directories_;
  std::list<std::string> oldest_first_;  // the keys of directories_
  std::deque<Guess> queue_;
  uint64_t bytes_ = 0;
  uint64_t last_number_ = 0;
};

}  // namespace shardfs::fs
