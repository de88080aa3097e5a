// Cause: why bytes are fetched. It orders parts, and what was received is counted by it.
// Not the store's priority, which has three steps only. Thread rule: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/object_store.h"

namespace shardfs::fetch {

/// Smaller is more urgent.
enum class Cause : uint8_t {
  kDemand,      // a reader waits
  kReadahead,   // the policy of an object that is being read
  kSmallFiles,  // a directory of small files, ahead of its reader
  kNextShard,   // a file that will be opened next
  kWarm,        // the user asked for it
};
inline constexpr size_t kCauses = 5;
inline constexpr std::array<Cause, kCauses> kAllCauses{Cause::kDemand, Cause::kReadahead, Cause::kSmallFiles,
                                                       Cause::kNextShard, Cause::kWarm};

constexpr size_t index_of(Cause cause) { return static_cast<size_t>(cause); }

/// The label of metrics, and what `stats` and the xattr user.shardfs.state show.
constexpr std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::kDemand: return "demand";
    case Cause::kReadahead: return "readahead";
    case Cause::kSmallFiles: return "small_files";
    case Cause::kNextShard: return "next_shard";
    case Cause::kWarm: return "warm";
  }
  return "demand";
}

constexpr store::Priority priority_of(Cause cause) {
  switch (cause) {
    case Cause::kDemand: return store::Priority::kDemand;
    case Cause::kReadahead:
    case Cause::kSmallFiles: return store::Priority::kReadahead;
    case Cause::kNextShard:
    case Cause::kWarm: return store::Priority::kWarm;
  }
  return store::Priority::kDemand;
}

/// Wanted through SourceFile::prefetch, not by a reader of the file itself.
constexpr bool is_guess(Cause cause) { return cause > Cause::kReadahead; }

}  // namespace shardfs::fetch
