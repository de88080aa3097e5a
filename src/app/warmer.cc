#include "app/warmer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "app/mount_path.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using nlohmann::json;

// Files of one request. Source: thousands of small files a second, asked for ten times a second.
constexpr size_t kFilesAtOnce = 1024;
constexpr std::chrono::seconds kLookupDeadline{10};
// How often a file is asked of the store, each time with the store's own retries.
constexpr unsigned kTries = 2;

}  // namespace

Result<std::string> Warmer::handle(const std::string& arguments) {
  const auto request = json::parse(arguments, nullptr, false);
  const auto files = request.is_object() ? request.find("files") : request.end();
  if (!request.is_object() || files == request.end() || !files->is_array() || files->size() > kFilesAtOnce) {
    return fail(Code::kInvalid, "\"files\" must be a list of at most 1024 paths");
  }
  std::vector<std::string> given, unknown;
  for (const auto& file : *files) {
    if (!file.is_string()) return fail(Code::kInvalid, "\"files\" holds something that is no text");
    given.push_back(file.get<std::string>());
  }
  const cache::Turn::Held turn(turn_);
  std::vector<std::string> paths;
  for (const auto& file : given) {
    paths.push_back(path_below(env_.mountpoint, file));
    if (!find(paths.back())) unknown.push_back(paths.back());
  }
  std::map<std::string, State> begun;
  const auto infos = env_.lookup.find(unknown, kLookupDeadline);
  for (size_t i = 0; i < unknown.size(); ++i) begun[unknown[i]] = begin(unknown[i], infos[i]);
  json answer = json::array();
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto entry = find(paths[i]);
    const State state = entry ? look_at(paths[i], *entry) : begun[paths[i]];
    answer.push_back({{"file", given[i]},
                      {"state", state.name},
                      {"size_bytes", state.size_bytes},
                      {"resident_bytes", state.resident_bytes}});
    if (!state.error.empty()) answer.back()["error"] = state.error;
  }
  return json{{"files", std::move(answer)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

Warmer::State Warmer::begin(const std::string& path, const Result<store::ObjectInfo>& info) {
  if (!info) return {.error = info.error().message};
  State state{.name = "complete", .size_bytes = info->size_bytes};
  if (info->size_bytes == 0) return state;
  const store::ObjectId id{env_.endpoint, env_.bucket, info->key, version_of(*info)};
  env_.cache.touch(id);  // a use: what is warmed together is not pushed out by its own end
  Entry entry;
  entry.source = env_.fetcher.open(*info);
  state.resident_bytes = entry.source->cached_bytes();
  if (state.resident_bytes == info->size_bytes) return state;
  // Together with what is on its way, or several would count on the same space.
  if (env_.cache.holdings()->admits(id, info->size_bytes - state.resident_bytes + missing_bytes())) {
    entry.kept = env_.cache.open_file(id, info->size_bytes);
  }
  if (!entry.kept) {
    state.name = "refused";
    state.error = "there is no space for it in the cache";
    return state;
  }
  entry.resident_bytes = state.resident_bytes;
  entry.progress_at = entry.asked_at = env_.clock.now();
  state.name = "fetching";
  const auto kept = std::make_shared<Entry>(std::move(entry));
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return {.error = "the mount ends"};
    entries_[path] = kept;
  }
  prefetch(*kept);
  return state;
}

void Warmer::prefetch(Entry& entry) {
  ++entry.tries;
  entry.progress_at = env_.clock.now();
  entry.ended = std::make_shared<std::atomic<bool>>(false);
  entry.source->prefetch({0, entry.kept->size_bytes()}, fetch::Cause::kWarm, [ended = entry.ended] { *ended = true; });
}

Warmer::State Warmer::look_at(const std::string& path, Entry& entry) {
  const auto now = env_.clock.now();
  State state{
      .name = "fetching", .size_bytes = entry.kept->size_bytes(), .resident_bytes = entry.kept->resident_bytes()};
  if (entry.kept->complete()) {
    state.name = "complete";
    forget(path);
    return state;
  }
  if (entry.kept->dead()) {
    state = {.name = "failed", .size_bytes = state.size_bytes, .error = "the cache's disk failed"};
    forget(path);
    return state;
  }
  if (std::exchange(entry.resident_bytes, state.resident_bytes) != state.resident_bytes) entry.progress_at = now;
  // What has arrived may be on its way to the disk.
  if (!*entry.ended || now - entry.progress_at < kSavePatience) return state;
  if (entry.tries < kTries) {
    prefetch(entry);
    return state;
  }
  state.name = "failed";
  state.error = "the store does not give it, or the cache has no space for it any more; see shardfs stats";
  forget(path);
  return state;
}

uint64_t Warmer::missing_bytes() {
  std::vector<EntryPtr> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, entry] : entries_) all.push_back(entry);
  }
  uint64_t bytes = 0;
  for (const auto& entry : all) bytes += entry->kept->size_bytes() - entry->kept->resident_bytes();
  return bytes;
}

Warmer::EntryPtr Warmer::find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(path);
  if (place == entries_.end()) return nullptr;
  place->second->asked_at = env_.clock.now();
  return place->second;
}

void Warmer::forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  entries_.erase(path);
}

void Warmer::sweep() {
  std::vector<EntryPtr> left;  // ended after the lock
  {
    const auto now = env_.clock.now();
    const std::lock_guard lock(mutex_);
    for (auto at = entries_.begin(); at != entries_.end();) {
      if (now - at->second->asked_at < kPatience) {
        ++at;
        continue;
      }
      left.push_back(std::move(at->second));
      at = entries_.erase(at);
    }
  }
  for (const auto& entry : left) entry->source->cancel_prefetch();
}

void Warmer::stop() {
  std::map<std::string, EntryPtr> left;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    left.swap(entries_);
  }
  for (const auto& [path, entry] : left) entry->source->cancel_prefetch();
}

}  // namespace shardfs::app
