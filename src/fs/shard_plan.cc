#include "fs/shard_plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace shardfs::fs {
namespace {

// Source: the directories of shards that one job has in use; what was learned of an epoch should last to the next.
constexpr size_t kDirectoriesLimit = 256;
// Of hinted small files so many are begun at once. Source: as many as are fetched at once.
constexpr size_t kSmallAtOnce = 64;
// Guesses that wait are looked through for those that stand no more when there are so many.
constexpr size_t kQueueLimit = 256;

// An open of one of so many last ones is no step. Source: MDS opens a shard for every sample, two to eight workers each
// another one.
constexpr size_t kRecentNames = 32;
// Shards that are remembered though they are closed, or open at once before they are forgotten. Source: MDS opens a
// shard for every sample.
constexpr size_t kOpenLimit = 256;
// So many processes that read one shard at once are no workers of a DataLoader: those take a shard each.
constexpr size_t kCrowd = 3;

struct State {
  uint64_t number = 0;
  uint64_t renewed = 0;  // the directory's count of steps when it was last guessed
  ShardPlan::Source source;
  uint64_t bytes = 0;
};

}  // namespace

struct ShardPlan::Directory {
  explicit Directory(std::string at) : path(std::move(at)) {}

  const std::string path;
  readahead::ShardOrder order;
  std::weak_ptr<const tree::Listing> listing;
  bool hinted = false;
  uint64_t steps = 0;  // opens of another shard
  std::array<size_t, kRecentNames> recent{};
  std::map<std::string, State, std::less<>> guesses;
  bool proven = false;   // one that had begun was opened
  bool crowded = false;  // a shard was read by several processes at once, to its end

  /// Of a shard that is open, or was opened lately and not gone through (a look at its head comes before the scan):
  /// what its opens made expect.
  struct Open {
    unsigned handles = 0;
    std::set<uint32_t> processes;  // no more than make a crowd
    std::vector<readahead::ShardOrder::Guess> expected;
    bool crowd = false;
  };
  std::map<std::string, Open, std::less<>> open;

  void note_step(std::string_view name) {
    const size_t hash = std::hash<std::string_view>()(name) | 1;
    if (std::find(recent.begin(), recent.end(), hash) != recent.end()) return;
    recent[steps++ % recent.size()] = hash;
  }
  size_t guesses_limit() const { return hinted ? kSmallAtOnce : 2 * std::max<size_t>(1, order.readers()); }
};

bool ShardPlan::needs_names(const std::string& path, const ListingPtr& listing) const {
  if (!listing || listing->names.size() > readahead::ShardOrder::kNamesLimit) return false;
  const auto entry = directories_.find(path);
  return entry == directories_.end() || entry->second.directory->listing.lock() != listing;
}

bool ShardPlan::is_hinted(const std::string& path) const {
  const auto entry = directories_.find(path);
  return entry != directories_.end() && entry->second.directory->hinted;
}

ShardPlan::DirectoryPtr ShardPlan::directory_of(const std::string& path, const ListingPtr& listing,
                                                std::vector<std::string> names) {
  auto place = directories_.find(path);
  if (place == directories_.end()) {
    oldest_first_.push_back(path);
    place = directories_.emplace(path, Entry{std::make_shared<Directory>(path), std::prev(oldest_first_.end())}).first;
  } else {
    oldest_first_.splice(oldest_first_.end(), oldest_first_, place->second.place);
  }
  const DirectoryPtr directory = place->second.directory;
  if (!names.empty()) directory->order.set_names(std::move(names));
  if (listing) directory->listing = listing;
  return directory;
}

std::vector<ShardPlan::Source> ShardPlan::on_open(const std::string& path, const ListingPtr& listing,
                                                  std::vector<std::string> names, std::string_view name,
                                                  uint32_t process) {
  std::vector<Source> given_up;
  const DirectoryPtr directory = directory_of(path, listing, std::move(names));
  directory->note_step(name);
  const auto guess = directory->guesses.find(name);
  if (guess != directory->guesses.end() && guess->second.source) directory->proven = true;
  forget(*directory, std::string(name), nullptr);
  const size_t count = directory->hinted ? kSmallAtOnce : directory->order.readers() + 1;
  auto expected = directory->order.on_open(name, process, count);
  auto& open = directory->open[std::string(name)];
  ++open.handles;
  if (open.processes.size() < kCrowd) open.processes.insert(process);
  if (directory->hinted) {
    add(directory, std::move(expected));
  } else if (!expected.empty()) {
    open.expected = std::move(expected);
  }
  give_up_old(*directory, given_up);
  while (directories_.size() > kDirectoriesLimit) {
    const auto oldest = directories_.find(oldest_first_.front());
    Directory& gone = *oldest->second.directory;
    while (!gone.guesses.empty()) forget(gone, gone.guesses.begin()->first, &given_up);
    directories_.erase(oldest);
    oldest_first_.pop_front();
  }
  return given_up;
}

void ShardPlan::on_scan(const std::string& path, std::string_view name) {
  const auto entry = directories_.find(path);
  if (entry == directories_.end()) return;
  const DirectoryPtr& directory = entry->second.directory;
  const auto open = directory->open.find(name);
  if (open == directory->open.end()) return;
  open->second.crowd = open->second.processes.size() >= kCrowd;
  if (open->second.crowd && !directory->crowded) return;
  auto expected = std::exchange(open->second.expected, {});
  std::erase_if(expected, [&](const auto& guess) {
    const auto other = directory->open.find(guess.name);
    return other != directory->open.end() && other->second.handles > 0;
  });
  add(directory, std::move(expected));
}

void ShardPlan::on_close(const std::string& path, std::string_view name) {
  const auto entry = directories_.find(path);
  if (entry == directories_.end()) return;
  Directory& directory = *entry->second.directory;
  directory.order.on_close(name);
  const auto open = directory.open.find(name);
  if (open == directory.open.end() || --open->second.handles > 0) return;
  directory.crowded = directory.crowded || open->second.crowd;
  open->second.processes.clear();
  if (open->second.expected.empty()) directory.open.erase(open);
  if (directory.open.size() <= kOpenLimit) return;
  std::erase_if(directory.open, [](const auto& entry) { return entry.second.handles == 0; });
}

size_t ShardPlan::hint(const std::string& path, const ListingPtr& listing, std::vector<std::string> names,
                       std::vector<std::string> hinted, bool append) {
  const DirectoryPtr directory = directory_of(path, listing, std::move(names));
  const size_t taken = directory->order.hint(std::move(hinted), append);
  directory->hinted = taken > 0 || (append && directory->hinted);
  add(directory, directory->order.hinted(directory->guesses_limit()));
  return taken;
}

void ShardPlan::add(const DirectoryPtr& directory, std::vector<readahead::ShardOrder::Guess> guesses) {
  const ListingPtr listing = directory->listing.lock();
  if (!listing) return;
  // Of shards one more than there are readers; of small files as many as make up for it.
  const size_t shards = directory->order.readers() + 1;
  uint64_t room = shards * 4 * readahead::kSmallFileBytes;
  for (auto& guess : guesses) {
    const auto known = directory->guesses.find(guess.name);
    if (known != directory->guesses.end()) known->second.renewed = directory->steps;
    const auto index = index_of_name(*listing, guess.name);
    if (!index || listing->names[*index].kind != tree::Kind::kFile || listing->names[*index].size_bytes == 0) continue;
    const uint64_t bytes = std::min(listing->names[*index].size_bytes, 4 * readahead::kSmallFileBytes);
    if (bytes > room) return;
    room -= bytes;
    if (known != directory->guesses.end()) continue;
    State& state = directory->guesses[guess.name];
    state.number = ++last_number_;
    state.renewed = directory->steps;
    queue_.push_back(Guess{directory, directory->path, listing, *index, state.number});
  }
  if (queue_.size() > kQueueLimit) std::erase_if(queue_, [this](const Guess& guess) { return !stands(guess); });
}

void ShardPlan::give_up_old(Directory& directory, std::vector<Source>& given_up) {
  const size_t limit = directory.guesses_limit();
  // Others were opened instead, each reader once or twice.
  std::vector<std::string> old;
  for (const auto& [name, state] : directory.guesses) {
    if (directory.steps - state.renewed > limit) old.push_back(name);
  }
  for (const auto& name : old) forget(directory, name, &given_up);
  while (directory.guesses.size() > std::max<size_t>(limit, 2)) {
    const auto oldest = std::min_element(directory.guesses.begin(), directory.guesses.end(), [](auto& a, auto& b) {
      return std::pair(a.second.renewed, a.second.number) < std::pair(b.second.renewed, b.second.number);
    });
    forget(directory, oldest->first, &given_up);
  }
}

void ShardPlan::forget(Directory& directory, const std::string& name, std::vector<Source>* given_up) {
  const auto guess = directory.guesses.find(name);
  if (guess == directory.guesses.end()) return;
  bytes_ -= guess->second.bytes;
  if (given_up != nullptr && guess->second.source) given_up->push_back(std::move(guess->second.source));
  directory.guesses.erase(guess);
}

bool ShardPlan::stands(const Guess& guess) const {
  const auto& name = guess.listed().name;
  const auto state = guess.directory->guesses.find(name);
  return state != guess.directory->guesses.end() && state->second.number == guess.number;
}

bool ShardPlan::is_proven(const Guess& guess) const {
  return stands(guess) && (guess.directory->proven || guess.directory->hinted);
}

std::optional<ShardPlan::Guess> ShardPlan::next() {
  while (!queue_.empty()) {
    Guess guess = std::move(queue_.front());
    queue_.pop_front();
    if (stands(guess)) return guess;
  }
  return std::nullopt;
}

void ShardPlan::begun(const Guess& guess, Source source, uint64_t bytes) {
  if (!stands(guess)) return;
  State& state = guess.directory->guesses.find(guess.listed().name)->second;
  state.source = std::move(source);
  state.bytes = bytes;
  bytes_ += bytes;
}

void ShardPlan::in_cache(const Guess& guess) {
  if (!stands(guess)) return;
  State& state = guess.directory->guesses.find(guess.listed().name)->second;
  bytes_ -= std::exchange(state.bytes, 0);
}

void ShardPlan::lost(const Guess& guess) {
  if (stands(guess)) forget(*guess.directory, guess.listed().name, nullptr);
}

void ShardPlan::clear() {
  // Guesses hold sources, and what a source tells when it is done holds its directory.
  for (auto& [path, entry] : directories_) entry.directory->guesses.clear();
  directories_.clear();
  oldest_first_.clear();
  queue_.clear();
}

}  // namespace shardfs::fs
