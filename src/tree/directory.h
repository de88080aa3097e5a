// Directory: what is known of the names in one directory. DirectoryTable: all of them, within a limit of names.
// Neither asks the store, and neither knows lifetimes: they say what was learned last, and when.
// Thread rule: confined to the tree's lock.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "tree/fact.h"
#include "tree/lister.h"
#include "tree/name_index.h"
#include "tree/tree.h"

namespace shardfs::tree {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

class Directory {
 public:
  /// Names known one by one, in one directory. Source: about 30 MiB; more is a store that forbids listing.
  static constexpr size_t kFactsLimit = 100000;

  /// The newest of what the listing, the pages of an unfinished one, and single questions said.
  Known find(std::string_view name) const;
  /// An older fact than the one that is there changes nothing.
  void learn(std::string_view name, Fact fact);
  /// order: of the moment when the listing was started; facts learned before it are dropped.
  void set_listing(std::shared_ptr<const Listing> listing, uint64_t order);
  /// Ignored if the listing is another one by now.
  void set_index(std::shared_ptr<const NameIndex> index);
  void set_partial(std::shared_ptr<const Lister> partial) { partial_ = std::move(partial); }
  /// What is known of the name is wrong: it counts as unknown, and the listing is no longer good for opendir.
  void distrust(std::string_view name, uint64_t order);

  const std::shared_ptr<const Listing>& listing() const { return listing_; }
  /// A name in it was distrusted after it had been started.
  bool listing_suspect() const { return distrusted_order_ > listing_order_; }
  size_t weight() const;  // names held

  unsigned unknown_lookups = 0;             // since there was a listing
  std::bitset<256> late_uses;               // by hash: names that were used when the listing was old
  base::SteadyTime no_background_before{};  // after a background listing that failed or was too long

 private:
  std::shared_ptr<const Listing> listing_;
  std::shared_ptr<const NameIndex> index_;  // of listing_; may be null
  uint64_t listing_order_ = 0;
  uint64_t distrusted_order_ = 0;
  std::shared_ptr<const Lister> partial_;
  StringMap<Fact> facts_;
};

class DirectoryTable {
 public:
  DirectoryTable(size_t names_limit, base::Gauge& listed_names) : limit_(names_limit), gauge_(listed_names) {}

  /// Null if nothing is known. Both mark it as the one used last.
  Directory* find(std::string_view path);
  /// Makes it if need be.
  Directory& touch(std::string_view path);
  /// After a directory got names: counts them, and drops the directories that were not used for longest while there are
  /// too many names; never this one, so one directory may pass the limit alone. Returns what was dropped, for the
  /// caller to destroy without the lock.
  std::vector<Directory> settle(std::string_view path);
  /// This path and all below it; for the caller to destroy without the lock.
  std::vector<Directory> drop_below(std::string_view path);
  size_t name_count() const { return names_; }

 private:
  void mark_used(std::list<const std::string*>::iterator place) {
    oldest_first_.splice(oldest_first_.end(), oldest_first_, place);
  }

  struct Slot {
    Directory directory;
    size_t weight = 0;  // as counted in names_
    std::list<const std::string*>::iterator place;
  };

  const size_t limit_;
  base::Gauge& gauge_;
  StringMap<Slot> by_path_;
  std::list<const std::string*> oldest_first_;  // the keys of by_path_
  size_t names_ = 0;
};

}  // namespace shardfs::tree
