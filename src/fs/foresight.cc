#include "fs/foresight.h"

#include <algorithm>
#include <unordered_map>

namespace shardfs::fs {
namespace {

using readahead::SmallFiles;

// Source: 64 connections, and as many files again as come and go within the time of a reply.
constexpr size_t kSmallFilesAtOnce = 96;
// Of the next shard. Source: 180 ms at 90 MB/s; its reader opens the rest while it has that.
constexpr uint64_t kFirstWindowBytes = 16 << 20;
// Of the next shard before a guess in its directory has come true. Source: half of a usual shard, what 16 connections
// bring in the time that the reader takes for the rest of its own.
constexpr uint64_t kUnprovenBytes = 64 << 20;
// Files that one task begins before it lets others have the thread.
constexpr unsigned kStepsATask = 32;
std::vector<std::string> file_names(const tree::Listing& listing) {
  std::vector<std::string> names;
  names.reserve(listing.names.size());
  for (const auto& listed : listing.names) {
    if (listed.kind == tree::Kind::kFile) names.push_back(listed.name);
  }
  return names;
}

}  // namespace

Foresight::Foresight(std::string key_prefix, uint64_t memory_bytes, tree::Tree& tree, fetch::Fetcher& fetcher,
                     cache::Cache* cache, base::Executor& executor, Meters& meters)
    : key_prefix_(std::move(key_prefix)),
      memory_bytes_(memory_bytes),
      tree_(tree),
      fetcher_(fetcher),
      cache_(cache),
      executor_(executor),
      meters_(meters) {}

std::pair<std::string, std::string_view> Foresight::split(std::string_view key) const {
  const std::string_view path = key.starts_with(key_prefix_) ? key.substr(key_prefix_.size()) : key;
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {std::string(), path};
  return {std::string(path.substr(0, slash)), path.substr(slash + 1)};
}

bool Foresight::on_open(fetch::SourceFile& source, uint32_t process, bool passthrough) {
  const store::ObjectInfo& info = source.info();
  const auto [directory, name] = split(info.key);
  const ListingPtr listing = tree_.known_listing(directory);
  const bool small = info.size_bytes <= readahead::kSmallFileBytes;
  bool shard = !small;
  if (small) {
    std::lock_guard lock(mutex_);
    shard = shards_.is_hinted(directory);
  }
  const bool resident = passthrough || (small ? source.seems_cached() : source.cached_bytes() >= info.size_bytes);
  if (small && listing) {
    const auto index = index_of_name(*listing, name);
    if (index && is_small_file(listing->names[*index])) open_small(directory, listing, *index, resident);
  }
  if (shard) open_shard(directory, listing, name, process, resident);
  return shard;
}

void Foresight::open_small(const std::string& directory, const ListingPtr& listing, size_t index, bool resident) {
  bool needed = false;
  {
    std::lock_guard lock(mutex_);
    needed = small_.needs_facts(directory, listing);
  }
  std::optional<ListingFacts> facts;
  if (needed) facts = facts_of(*listing);
  Source released, given_up;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto opened = small_.on_open(directory, listing, facts, index, resident);
    if (opened.how == SmallFiles::Open::kNeutral) return;
    if (opened.how == SmallFiles::Open::kForeseen) {
      meters_.ahead_small_opened.add();
      const auto place = held_places_.find({opened.directory.get(), index});
      if (place != held_places_.end()) {
        released = std::move(place->second->source);
        small_bytes_ -= place->second->bytes;
        held_.erase(place->second);
        held_places_.erase(place);
      }
    } else if (!held_.empty() && small_bytes_ >= ahead_limit_bytes()) {
      // The reader is elsewhere, and what waits for it in vain takes the room.
      Held& oldest = held_.front();
      given_up = std::move(oldest.source);
      small_bytes_ -= oldest.bytes;
      small_.lost(oldest.directory, oldest.index, given_up->info().size_bytes);
      held_places_.erase({oldest.directory.get(), oldest.index});
      held_.pop_front();
    }
  }
  if (given_up) given_up->cancel_prefetch();
  wake();
}

void Foresight::open_shard(const std::string& directory, const ListingPtr& listing, std::string_view name,
                           uint32_t process, bool resident) {
  bool needed = false;
  {
    std::lock_guard lock(mutex_);
    needed = shards_.needs_names(directory, listing);
  }
  std::vector<std::string> names;
  if (needed) names = file_names(*listing);
  std::vector<Source> given_up;
  bool work = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    given_up = shards_.on_open(directory, listing, std::move(names), name, process);
    if (resident) shards_.on_scan(directory, name);  // no reads of it are seen
    work = shards_.has_next();
  }
  for (const auto& source : given_up) source->cancel_prefetch();
  if (work || !given_up.empty()) wake();
}

void Foresight::on_scan(const store::ObjectInfo& info) {
  const auto [directory, name] = split(info.key);
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    shards_.on_scan(directory, name);
    if (!shards_.has_next()) return;
  }
  wake();
}

void Foresight::on_close(const store::ObjectInfo& info) {
  const auto [directory, name] = split(info.key);
  std::lock_guard lock(mutex_);
  shards_.on_close(directory, name);
}

HintReply Foresight::hint(std::span<const std::string> paths, bool append) {
  HintReply reply;
  std::vector<std::string> directories;  // in the order of the list
  std::unordered_map<std::string, std::vector<std::string>> hinted;
  std::unordered_map<std::string, ListingPtr> listings;
  for (std::string_view path : paths) {
    while (path.starts_with('/')) path.remove_prefix(1);
    const size_t slash = path.rfind('/');
    const std::string directory(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
    const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
    auto listing = listings.find(directory);
    if (listing == listings.end()) listing = listings.emplace(directory, tree_.known_listing(directory)).first;
    const auto index = listing->second ? index_of_name(*listing->second, name) : std::nullopt;
    if (!index || listing->second->names[*index].kind != tree::Kind::kFile) {
      ++reply.unknown;
      continue;
    }
    auto& names = hinted[directory];
    if (names.empty()) directories.push_back(directory);
    names.emplace_back(name);
  }
  for (const auto& directory : directories) {
    const ListingPtr& listing = listings[directory];
    auto names = file_names(*listing);
    const size_t wanted = hinted[directory].size();
    size_t taken = 0;
    {
      std::lock_guard lock(mutex_);
      if (closed_) break;
      if (!shards_.needs_names(directory, listing)) names.clear();
      taken = shards_.hint(directory, listing, std::move(names), std::move(hinted[directory]), append);
    }
    reply.accepted += taken;
    reply.unknown += wanted - std::min(wanted, taken);
  }
  meters_.hinted.add(reply.accepted);
  meters_.hinted_unknown.add(reply.unknown);
  wake();
  return reply;
}

void Foresight::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  idle_.wait(lock, [this] { return !running_; });
  std::list<Held> held;
  held.swap(held_);
  held_places_.clear();
  ShardPlan shards;
  std::swap(shards, shards_);
  lock.unlock();  // what they hold is destroyed without it
}

void Foresight::wake() {
  {
    std::lock_guard lock(mutex_);
    if (closed_ || running_) return;
    running_ = true;
  }
  executor_.post([self = shared_from_this()] { self->run(); });
}

void Foresight::run() {
  const uint64_t free = free_bytes();
  for (unsigned steps = 0; steps < kStepsATask; ++steps) {
    if (!step(free)) return;
  }
  executor_.post([self = shared_from_this()] { self->run(); });
}

bool Foresight::step(uint64_t free_bytes) {
  std::optional<SmallFilePlan::Question> question;
  std::optional<SmallFilePlan::Wanted> small;
  std::optional<ShardPlan::Guess> shard;
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      const bool small_room = small_under_way_ < kSmallFilesAtOnce && small_bytes_ < ahead_limit_bytes();
      const bool shard_room = shards_.bytes() + kFirstWindowBytes <= ahead_limit_bytes();
      question = small_.next_question();
      if (!question && small_room) small = small_.next(free_bytes);
      if (!question && !small && shard_room) shard = shards_.next();
      if (small) {
        small_.fetching(*small);
        ++small_under_way_;
        small_bytes_ += fetch::buffers_of(small->listed().size_bytes);
      }
    }
    if (!question && !small && !shard) {
      running_ = false;
      idle_.notify_all();
      return false;
    }
  }
  if (question) ask(*question);
  if (small) fetch_small(*small);
  if (shard) fetch_shard(*shard, free_bytes);
  return true;
}

void Foresight::ask(const SmallFilePlan::Question& question) {
  tree_.list_unasked(question.path, [weak = weak_from_this(), question](const base::Result<ListingPtr>& listing) {
    const auto self = weak.lock();
    if (!self) return;
    const ListingPtr known = listing ? *listing : self->tree_.known_listing(question.path);
    const ListingFacts facts = known ? facts_of(*known) : ListingFacts();
    {
      std::lock_guard lock(self->mutex_);
      self->small_.answer(question, known, facts);
    }
    self->wake();
  });
}

void Foresight::fetch_small(const SmallFilePlan::Wanted& wanted) {
  const uint64_t buffer_bytes = fetch::buffers_of(wanted.listed().size_bytes);
  const auto info = tree_.known_file(wanted.path, wanted.listed());
  const Source source = info ? fetcher_.open(*info) : nullptr;
  const bool hold = cache_ == nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!source) {
      small_.lost(wanted.directory, wanted.index, wanted.listed().size_bytes);
      --small_under_way_;
      small_bytes_ -= buffer_bytes;
      return;
    }
    if (hold) {
      const HeldKey key{wanted.directory.get(), wanted.index};
      const auto place = held_.insert(held_.end(), {wanted.directory, wanted.index, buffer_bytes, source});
      if (!held_places_.emplace(key, place).second) {
        held_.erase(place);
        small_bytes_ -= buffer_bytes;
      }
    }
  }
  meters_.ahead_small.add();
  source->prefetch({0, info->size_bytes}, fetch::Cause::kSmallFiles,
                   [weak = weak_from_this(), freed = hold ? 0 : buffer_bytes] {
                     const auto self = weak.lock();
                     if (!self) return;
                     {
                       std::lock_guard lock(self->mutex_);
                       --self->small_under_way_;
                       self->small_bytes_ -= freed;
                     }
                     self->wake();
                   });
}

void Foresight::fetch_shard(const ShardPlan::Guess& guess, uint64_t free_bytes) {
  const auto info = tree_.known_file(guess.path, guess.listed());
  const Source source = info ? fetcher_.open(*info) : nullptr;
  const uint64_t size = guess.listed().size_bytes;
  uint64_t window = std::min(size, kFirstWindowBytes);
  uint64_t end = 0;
  {
    std::lock_guard lock(mutex_);
    if (!source) return shards_.lost(guess);
    end = shards_.is_proven(guess) ? size : std::min(size, kUnprovenBytes);
    if (end - window > free_bytes) {
      // It stays in memory until it is read: half of what guesses may still hold there.
      const uint64_t left = ahead_limit_bytes() - std::min(ahead_limit_bytes(), shards_.bytes());
      end = window = std::max(window, std::min({end, kUnprovenBytes, left / 2}));
    }
    shards_.begun(guess, source, window);
  }
  meters_.ahead_shards.add();
  source->prefetch({0, window}, fetch::Cause::kNextShard,
                   [weak = weak_from_this(), weak_source = std::weak_ptr(source), guess, window] {
                     const auto self = weak.lock();
                     const auto source = weak_source.lock();
                     if (!self || !source || self->cache_ == nullptr) return;
                     const bool in_cache = source->cached_bytes() >= window;
                     {
                       std::lock_guard lock(self->mutex_);
                       if (self->closed_) return;
                       if (in_cache) self->shards_.in_cache(guess);
                     }
                     self->wake();
                   });
  // It waits behind what readers want of the shards that are open: fetch gives the next shard what they leave.
  if (end > window) source->prefetch({window, end}, fetch::Cause::kNextShard);
}

uint64_t Foresight::free_bytes() const { return cache_ == nullptr ? 0 : cache_->stats().free_bytes; }

}  // namespace shardfs::fs
