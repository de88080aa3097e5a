// Lister: gathers all pages of one directory into one sorted run of names, and stops pages that never end.
// It sends nothing itself: who asks the store hands it each page and gets the next token.
// Thread rule: confined to the tree's lock. It owns the names until take().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tree/names.h"
#include "tree/tree.h"

namespace shardfs::tree {

/// Null if the name is not among the sorted names.
const ListedName* find_name(const std::vector<ListedName>& sorted, std::string_view name);

class Lister {
 public:
  /// Pages in a row that may bring no new name. Source: stores that page before they group or that skip deleted keys
  /// send a few; a store that sends 100 is not going to end.
  static constexpr unsigned kIdlePagesLimit = 100;
  /// Source: 20 million names, more than the memory of a node holds.
  static constexpr unsigned kPagesLimit = 20000;

  Lister(std::string directory_prefix, base::SteadyTime started_at, uint64_t order)
      : prefix_(std::move(directory_prefix)), started_at_(started_at), order_(order) {}

  /// One page after the other. True: there is a next page, asked for with continuation(). The names may be found from
  /// now on. Errors: kIntegrity for pages that make no progress or never end; the names so far stay.
  base::Result<bool> add(PageNames page, bool truncated, std::string continuation);
  /// Pages from several places of the order. settled: pages to come bring greater keys only. last: there is none.
  /// Errors: as add.
  base::Result<void> add_part(PageNames page, std::string settled, bool last);

  /// What the pages so far say for sure: a file only when no later page can turn it into a directory.
  const ListedName* find(std::string_view name) const;
  /// Leaves it empty.
  std::vector<ListedName> take();

  const std::string& prefix() const { return prefix_; }
  const std::string& continuation() const { return continuation_; }
  size_t name_count() const { return name_count_; }
  size_t odd_count() const { return odd_; }
  /// Objects and prefixes of all pages, markers and odd ones included: 0 means that nothing is there.
  size_t raw_count() const { return raw_; }
  base::SteadyTime started_at() const { return started_at_; }
  uint64_t order() const { return order_; }

 private:
  using Runs = std::map<std::string, std::vector<ListedName>>;
  void count(const PageNames& page);
  /// Counts the names that are new.
  void merge(std::vector<ListedName> page);
  base::Error endless() const;

  const std::string prefix_;
  const base::SteadyTime started_at_;
  const uint64_t order_;
  Runs runs_;  // by their first name; each is sorted and ends before the next one begins
  size_t name_count_ = 0;
  std::string continuation_;
  std::string settled_key_;  // pages to come bring greater keys only (on a store that sorts)
  bool complete_ = false;
  size_t odd_ = 0;
  size_t raw_ = 0;
  unsigned pages_ = 0;
  unsigned idle_pages_ = 0;
};

}  // namespace shardfs::tree
