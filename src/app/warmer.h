// Warmer: the control command "warm": makes whole files resident in the cache, since somebody asked for them.
// It keeps what was asked for until it is told the end of it; the asker asks again and again for the files that are
// not there yet, and what nobody asks for any more is cancelled. Not the order of files, nor how many at once: the
// asker's. What would not fit is refused before a byte of it is fetched.
// Thread rule: thread-safe. What the environment refers to outlives it. stop() comes before the fetcher's end.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/path_lookup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cache/cache.h"
#include "cache/holdings.h"
#include "cache/turn.h"
#include "fetch/fetcher.h"

namespace shardfs::app {

class Warmer {
 public:
  struct Environment {
    cache::Cache& cache;
    fetch::Fetcher& fetcher;
    PathLookup& lookup;
    const base::Clock& clock;
    std::string mountpoint;
    std::string endpoint;
    std::string bucket;
  };
  explicit Warmer(Environment environment) : env_(std::move(environment)) {}

  /// arguments: {"files": [TEXT, ...]}. The answer: {"files": [{"file", "state", "size_bytes", "resident_bytes"},
  /// ...]}, in their order; state: "complete", "fetching", "refused" (there is no space for it), or "failed"; the last
  /// two with "error". Errors: kInvalid.
  base::Result<std::string> handle(const std::string& arguments);
  /// Cancels what nobody has asked for lately. Called about once a second.
  void sweep();
  /// Cancels everything; nothing starts after it.
  void stop();

 private:
  /// Source: an asker asks several times a second; a busy machine stops it for a second or two.
  static constexpr std::chrono::seconds kPatience{10};
  /// Blocks of a fetched file that are on their way to the disk: without progress for so long they don't come.
  static constexpr std::chrono::seconds kSavePatience{5};

  /// Used by whoever has the turn, but for asked_at.
  struct Entry {
    std::shared_ptr<fetch::SourceFile> source;
    std::shared_ptr<cache::CacheFile> kept;  // so that it is not evicted before it is complete
    std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
    uint64_t resident_bytes = 0;
    base::SteadyTime progress_at{};
    base::SteadyTime asked_at{};  // guarded by mutex_
    unsigned tries = 0;
  };
  using EntryPtr = std::shared_ptr<Entry>;
  struct State {
    const char* name = "failed";
    uint64_t size_bytes = 0;
    uint64_t resident_bytes = 0;
    std::string error;
  };

  // All with the turn.
  State begin(const std::string& path, const base::Result<store::ObjectInfo>& info);
  State look_at(const std::string& path, Entry& entry);
  void prefetch(Entry& entry);
  /// Of all that is being fetched.
  uint64_t missing_bytes();
  EntryPtr find(const std::string& path);
  void forget(const std::string& path);

  const Environment env_;
  cache::Turn turn_;  // of handle(): one asker after the other
  std::mutex mutex_;  // guards the two below
  std::map<std::string, EntryPtr> entries_;
  bool stopped_ = false;
};

}  // namespace shardfs::app
