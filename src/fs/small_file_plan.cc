#include "fs/small_file_plan.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace shardfs::fs {
namespace {

using readahead::SiblingOpens;
using readahead::SmallFiles;
using readahead::SmallFileYield;

// Source: three bits a name, and some 300 bytes a directory.
constexpr size_t kDirectoriesLimit = 16384;
constexpr size_t kNamesLimit = 8 << 20;
constexpr size_t kActiveLimit = 64;
constexpr size_t kPullingLimit = 4;
// More directories below one parent are no set of classes. Source: ImageNet has 1,000; a listing page each.
constexpr size_t kSiblingsLimit = 4096;
// Questions for names under way. Source: the listings of 1,000 directories in three seconds at 50 ms each.
constexpr size_t kQuestionsAtOnce = 16;

struct Sibling {
  std::string name;
  SmallFilePlan::DirectoryPtr directory;  // null: its names were never seen
  ListingPtr listing;                     // held while it is pulled, if the tree may drop it
  bool asked = false;
  bool failed = false;
};

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string join(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty()) path += '/';
  return path.append(name);
}

}  // namespace

struct SmallFilePlan::Directory {
  Directory(std::string at, FamilyPtr of, size_t files) : path(std::move(at)), family(std::move(of)), files(files) {}

  const std::string path;
  const FamilyPtr family;  // those with the same parent
  SmallFiles files;
  std::weak_ptr<const tree::Listing> listing;
  uint64_t digest = 0;
  uint64_t left_bytes = 0;  // of small files that were neither fetched nor opened
  bool active = false;
  bool counted = false;  // in left_bytes of its family

  void take(uint64_t bytes);
};

struct SmallFilePlan::Family {
  explicit Family(std::string_view at) : path(at) {}

  const std::string path;
  SiblingOpens opens;
  SmallFileYield yield;
  bool pulled = false;            // in pulling_, or it was
  bool parent_asked = false;      // for the names of the siblings
  std::string last_opened;        // name of the sibling
  std::vector<Sibling> siblings;  // only while it is in pulling_: they hold directories, which hold this
  size_t next_question = 0;
  size_t questions = 0;     // under way
  size_t at = 0;            // the sibling that is pulled now
  uint64_t left_bytes = 0;  // of the siblings whose names are known
  size_t known = 0;
  size_t failed = 0;
};

void SmallFilePlan::Directory::take(uint64_t bytes) {
  bytes = std::min(bytes, left_bytes);
  left_bytes -= bytes;
  if (counted) family->left_bytes -= bytes;
}

ListingFacts facts_of(const tree::Listing& listing) {
  ListingFacts facts;
  const std::hash<std::string_view> hash;
  for (const auto& listed : listing.names) {
    facts.digest =
        facts.digest * 0x9e3779b97f4a7c15u + (hash(listed.name) ^ (hash(listed.etag) << 1)) + listed.size_bytes;
    if (!is_small_file(listed)) continue;
    facts.small_bytes += listed.size_bytes;
    ++facts.small_files;
  }
  return facts;
}

std::optional<size_t> index_of_name(const tree::Listing& listing, std::string_view name) {
  const auto place = std::lower_bound(listing.names.begin(), listing.names.end(), name,
                                      [](const tree::ListedName& a, std::string_view b) { return a.name < b; });
  if (place == listing.names.end() || place->name != name) return std::nullopt;
  return static_cast<size_t>(place - listing.names.begin());
}

SmallFilePlan::~SmallFilePlan() {
  for (const FamilyPtr& family : pulling_) family->siblings.clear();
}

bool SmallFilePlan::needs_facts(const std::string& path, const ListingPtr& listing) const {
  const auto entry = directories_.find(path);
  return entry == directories_.end() || entry->second.directory->listing.lock() != listing;
}

SmallFilePlan::FamilyPtr SmallFilePlan::family_of(std::string_view directory_path) {
  // The mounted root has no siblings.
  const std::string key = directory_path.empty() ? "/" : std::string(parent_of(directory_path));
  auto& place = families_[key];
  auto family = place.lock();
  if (!family) place = family = std::make_shared<Family>(key);
  return family;
}

SmallFilePlan::DirectoryPtr SmallFilePlan::directory_of(const std::string& path, const ListingPtr& listing,
                                                        const std::optional<ListingFacts>& facts) {
  auto place = directories_.find(path);
  if (place != directories_.end()) oldest_first_.splice(oldest_first_.end(), oldest_first_, place->second.place);
  DirectoryPtr known = place == directories_.end() ? nullptr : place->second.directory;
  if (known && (!facts || known->digest == facts->digest)) {
    known->listing = listing;
    return known;
  }
  // New, or changed: the numbers of its files mean something else now.
  auto made = std::make_shared<Directory>(path, known ? known->family : family_of(path), listing->names.size());
  made->listing = listing;
  if (facts) {
    made->digest = facts->digest;
    made->left_bytes = facts->small_bytes;
  }
  if (known) {
    names_ -= known->files.files();
    place->second.directory = made;
  } else {
    oldest_first_.push_back(path);
    directories_.emplace(path, Entry{made, std::prev(oldest_first_.end())});
  }
  names_ += made->files.files();
  if (known && known->counted) {
    for (Sibling& sibling : made->family->siblings) {
      if (sibling.directory == known) sibling.directory = made;
    }
    made->counted = true;
    made->family->left_bytes += made->left_bytes - known->left_bytes;
    known->counted = false;
  }
  while (directories_.size() > 1 && (directories_.size() > kDirectoriesLimit || names_ > kNamesLimit)) drop_oldest();
  return made;
}

void SmallFilePlan::drop_oldest() {
  const auto entry = directories_.find(oldest_first_.front());
  names_ -= entry->second.directory->files.files();
  directories_.erase(entry);
  oldest_first_.pop_front();
  if (families_.size() > 2 * directories_.size()) {
    std::erase_if(families_, [](const auto& family) { return family.second.expired(); });
  }
}

SmallFilePlan::Opened SmallFilePlan::on_open(const std::string& path, const ListingPtr& listing,
                                             const std::optional<ListingFacts>& facts, size_t index, bool resident) {
  if (!facts && needs_facts(path, listing)) return {SmallFiles::Open::kNeutral, nullptr};  // another one came between
  const DirectoryPtr directory = directory_of(path, listing, facts);
  Family& family = *directory->family;
  const uint64_t bytes = listing->names[index].size_bytes;
  const double coverage = directory->files.coverage();
  const SmallFiles::Open how = directory->files.on_open(index, resident);
  family.yield.on_open(how, bytes, coverage);
  if (how == SmallFiles::Open::kMissed) {
    directory->take(bytes);
    family.opens.on_missed(std::hash<std::string>()(path));
    family.last_opened = name_of(path);
  }
  if (family.opens.wanted() && family.path != "/" && !family.pulled) {
    family.pulled = true;
    pulling_.push_front(directory->family);
    if (pulling_.size() > kPullingLimit) {
      pulling_.back()->siblings.clear();
      pulling_.pop_back();
    }
  }
  if (!std::exchange(directory->active, true)) {
    active_.push_front(directory);
    if (active_.size() > kActiveLimit) {
      active_.back()->active = false;
      active_.pop_back();
    }
  }
  return {how, directory};
}

std::optional<SmallFilePlan::Wanted> SmallFilePlan::next(uint64_t free_bytes) {
  for (auto place = active_.begin(); place != active_.end();) {
    const DirectoryPtr directory = *place;
    const ListingPtr listing = directory->listing.lock();
    if (directory->family->yield.worthwhile()) {
      if (listing) {
        if (auto wanted = next_of(directory, listing, directory->left_bytes <= free_bytes)) return wanted;
      }
    }
    directory->active = false;  // until its next open
    place = active_.erase(place);
  }
  for (const FamilyPtr& family : pulling_) {
    if (auto wanted = next_of_family(*family, free_bytes)) return wanted;
  }
  return std::nullopt;
}

std::optional<SmallFilePlan::Wanted> SmallFilePlan::next_of(const DirectoryPtr& directory, const ListingPtr& listing,
                                                            bool may_pull) {
  while (const auto index = directory->files.next(may_pull)) {
    if (*index < listing->names.size() && is_small_file(listing->names[*index])) {
      return Wanted{directory, directory->path, listing, *index};
    }
  }
  return std::nullopt;
}

std::optional<SmallFilePlan::Wanted> SmallFilePlan::next_of_family(Family& family, uint64_t free_bytes) {
  if (!family.yield.worthwhile()) return std::nullopt;
  // All of it, or none: what was not listed yet is as large as the others.
  if (family.known == 0) return std::nullopt;
  const size_t unknown = family.siblings.size() - family.known - family.failed;
  if (family.left_bytes + family.left_bytes / family.known * unknown > free_bytes) return std::nullopt;
  const size_t count = family.siblings.size();
  for (size_t looked = 0; looked < count; ++looked, family.at = (family.at + 1) % count) {
    Sibling& sibling = family.siblings[family.at];
    if (!sibling.directory || sibling.directory->files.exhausted()) {
      sibling.listing = nullptr;
      continue;
    }
    const ListingPtr listing = sibling.listing ? sibling.listing : sibling.directory->listing.lock();
    if (!listing) {
      // The tree has dropped its names: they are asked for again, and held until they are done with.
      if (!sibling.failed) sibling.asked = false;
      family.next_question = std::min(family.next_question, family.at);
      continue;
    }
    sibling.directory->files.want_whole();
    if (auto wanted = next_of(sibling.directory, listing, true)) return wanted;
  }
  return std::nullopt;
}

std::optional<SmallFilePlan::Question> SmallFilePlan::next_question() {
  for (const FamilyPtr& family : pulling_) {
    if (!family->yield.worthwhile() || family->questions >= kQuestionsAtOnce) continue;
    if (!family->parent_asked) {
      family->parent_asked = true;
      ++family->questions;
      return Question{family, std::nullopt, family->path};
    }
    for (size_t& at = family->next_question; at < family->siblings.size(); ++at) {
      Sibling& sibling = family->siblings[at];
      if (sibling.asked || sibling.failed) continue;
      sibling.asked = true;
      ++family->questions;
      return Question{family, at, join(family->path, sibling.name)};
    }
  }
  return std::nullopt;
}

void SmallFilePlan::answer(const Question& question, ListingPtr listing, const ListingFacts& facts) {
  Family& family = *question.family;
  --family.questions;
  if (!question.sibling) {
    const bool pulling = std::find(pulling_.begin(), pulling_.end(), question.family) != pulling_.end();
    if (!listing || !pulling) return;
    for (const auto& listed : listing->names) {
      if (listed.kind != tree::Kind::kDirectory) continue;
      if (family.siblings.size() >= kSiblingsLimit) {
        family.siblings.clear();
        return;
      }
      if (listed.name == family.last_opened) family.at = family.siblings.size();
      family.siblings.push_back(Sibling{listed.name, nullptr, nullptr, false, false});
    }
    return;
  }
  if (*question.sibling >= family.siblings.size()) return;  // given up meanwhile
  Sibling& sibling = family.siblings[*question.sibling];
  if (!listing) {
    sibling.failed = true;
    if (!sibling.directory) ++family.failed;
    return;
  }
  const bool again = sibling.directory != nullptr;
  const DirectoryPtr directory = directory_of(question.path, listing, facts);
  if (!again) ++family.known;
  if (again && sibling.directory->counted && sibling.directory != directory) {  // it was dropped here meanwhile
    sibling.directory->counted = false;
    family.left_bytes -= sibling.directory->left_bytes;
  }
  if (!std::exchange(directory->counted, true)) family.left_bytes += directory->left_bytes;
  sibling.directory = directory;
  if (again) sibling.listing = std::move(listing);
}

void SmallFilePlan::fetching(const Wanted& wanted) {
  const uint64_t bytes = wanted.listed().size_bytes;
  const size_t before = wanted.directory->files.unopened();
  wanted.directory->files.fetching(wanted.index);
  if (wanted.directory->files.unopened() == before) return;  // a reader was faster
  wanted.directory->take(bytes);
  wanted.directory->family->yield.on_fetch(bytes);
}

void SmallFilePlan::lost(const DirectoryPtr& directory, size_t index, uint64_t bytes) {
  const size_t before = directory->files.unopened();
  directory->files.lost(index);
  if (directory->files.unopened() != before) directory->family->yield.on_lost(bytes);
}

}  // namespace shardfs::fs
