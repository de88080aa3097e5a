// SmallFilePlan: which small file is fetched next, over all directories: it holds the policies of src/readahead for
// each directory and for the directories of one parent, with what is known of their listings. Not a fetcher: it hands
// out one file after the other, and the questions for names that it has once it wants all directories of a parent.
// Never more than a bounded number of directories; a listing is held only while it is pulled. Thread rule: confined to
// Foresight's lock; it calls nobody.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "readahead/small_files.h"
#include "tree/tree.h"

namespace shardfs::fs {

using ListingPtr = std::shared_ptr<const tree::Listing>;

/// What one walk over a listing tells. Costs time for a long one: not to be made under a lock.
struct ListingFacts {
  uint64_t digest = 0;  // of names and versions: equal for equal listings
  uint64_t small_bytes = 0;
  size_t small_files = 0;
};
ListingFacts facts_of(const tree::Listing& listing);
/// Nothing if it is not listed.
std::optional<size_t> index_of_name(const tree::Listing& listing, std::string_view name);
inline bool is_small_file(const tree::ListedName& listed) {
  return listed.kind == tree::Kind::kFile && listed.size_bytes > 0 && listed.size_bytes <= readahead::kSmallFileBytes;
}

class SmallFilePlan {
 public:
  struct Directory;
  struct Family;
  using DirectoryPtr = std::shared_ptr<Directory>;
  using FamilyPtr = std::shared_ptr<Family>;

  SmallFilePlan() = default;
  ~SmallFilePlan();
  SmallFilePlan(const SmallFilePlan&) = delete;
  SmallFilePlan& operator=(const SmallFilePlan&) = delete;

  /// One file to fetch.
  struct Wanted {
    DirectoryPtr directory;
    std::string path;  // of the directory
    ListingPtr listing;
    size_t index = 0;

    const tree::ListedName& listed() const { return listing->names[index]; }
  };
  /// A directory whose names are wanted.
  struct Question {
    FamilyPtr family;
    std::optional<size_t> sibling;  // nothing: the parent itself
    std::string path;
  };

  /// Whether this listing of the directory is new here, so that on_open needs its facts.
  bool needs_facts(const std::string& path, const ListingPtr& listing) const;
  /// A small file was opened. facts: if they are needed. Returns what it was fetched as, for whoever holds its bytes.
  struct Opened {
    readahead::SmallFiles::Open how;
    DirectoryPtr directory;
  };
  Opened on_open(const std::string& path, const ListingPtr& listing, const std::optional<ListingFacts>& facts,
                 size_t index, bool resident);

  /// free_bytes: what the cache has room for. Nothing: there is nothing (more) to fetch now.
  std::optional<Wanted> next(uint64_t free_bytes);
  /// Names that are to be asked for, at most a few at once.
  std::optional<Question> next_question();
  /// listing: null if there is none.
  void answer(const Question& question, ListingPtr listing, const ListingFacts& facts);

  /// The file that next() gave out is on its way, or will not come after all.
  void fetching(const Wanted& wanted);
  void lost(const DirectoryPtr& directory, size_t index, uint64_t bytes);

  size_t directory_count() const { return directories_.size(); }

 private:
  DirectoryPtr directory_of(const std::string& path, const ListingPtr& listing,
                            const std::optional<ListingFacts>& facts);
  FamilyPtr family_of(std::string_view directory_path);
  std::optional<Wanted> next_of(const DirectoryPtr& directory, const ListingPtr& listing, bool may_pull);
  std::optional<Wanted> next_of_family(Family& family, uint64_t free_bytes);
  void drop_oldest();

  struct Entry {
    DirectoryPtr directory;
    std::list<std::string>::iterator place;
  };
  std::unordered_map<std::string, Entry> directories_;
  std::list<std::string> oldest_first_;  // the keys of directories_
  size_t names_ = 0;                     // of all of them
  std::unordered_map<std::string, std::weak_ptr<Family>> families_;
  std::list<DirectoryPtr> active_;  // opened lately, the last one first; they may have something to fetch
  std::list<FamilyPtr> pulling_;    // wanted whole, the one opened last first
};

}  // namespace shardfs::fs
