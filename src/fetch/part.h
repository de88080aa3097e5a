// Part: a range that is being fetched, and its legs: the GETs that bring it. One as a rule; a second one when the first
// is late. Both copy into the same block buffers, in turn, and only what the other did not bring.
// Thread rule: as each field says. Owns a share of the buffers and of the file; legs own their part until they end.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/byte_range.h"
#include "base/clock.h"
#include "cache/cache.h"
#include "fetch/cause.h"
#include "store/object_store.h"

namespace shardfs::fetch {

class SourceFileImpl;
class Part;

/// One GET of a part. The store calls it from one thread at a time.
class Leg final : public store::BodySink {
 public:
  Leg(std::shared_ptr<Part> part, uint64_t begin, base::SteadyTime started, bool second)
      : part(std::move(part)), begin(begin), started(started), second(second) {}

  void on_start(const store::ObjectInfo&) override {}
  bool on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) override;

  const std::shared_ptr<Part> part;
  const uint64_t begin;
  const base::SteadyTime started;
  const bool second;
  // With the file's lock.
  store::RequestHandle request;  // null: not there yet, or ended
  bool unwanted = false;         // to be cancelled as soon as the request is there
  bool ended = false;
  base::SteadyTime begun{};  // its first byte
};

class Part final {
 public:
  Part(std::shared_ptr<SourceFileImpl> file, base::ByteRange range, Cause cause)
      : file(std::move(file)), cause(cause), range(range), urgency(cause), progress(range.begin) {}

  /// What it still brings, in whole pages. With the file's lock.
  base::ByteRange left() const;
  /// The requests under way, to be cancelled or raised without the lock. With the file's lock.
  void add_requests(std::vector<store::RequestHandle>& to) const;
  /// As add_requests, and those that are not there yet are cancelled when they are.
  void give_up_legs(std::vector<store::RequestHandle>& to, const Leg* but = nullptr);

  const std::shared_ptr<SourceFileImpl> file;
  const Cause cause;  // why it was started: what it is counted by

  // Constant once a leg has started.
  base::ByteRange range;
  std::vector<std::shared_ptr<base::Buffer>> buffers;  // one a block of the range
  std::shared_ptr<cache::CacheFile> target;            // where full blocks are saved; may be null

  // With the file's lock.
  std::vector<bool> granted;  // the right to fill that block of target is held by this part
  Cause urgency;              // by now: a reader may have opened the file since
  bool unwanted = false;      // was given up
  bool short_of_memory = false;
  bool hedged = false;
  base::SteadyTime started{};  // zero: not yet
  base::SteadyTime begun{};    // its first byte, of any leg
  base::SteadyTime heard{};    // its last byte so far
  std::vector<std::shared_ptr<Leg>> legs;
  std::optional<base::Error> error;  // of a leg that ended while the other went on

  // Read with the file's lock or `turn`, written with both.
  uint64_t progress;  // arrived up to here

  // Written with the scheduler's lock and the file's.
  bool preempted = false;  // cancelled for demand; the rest is wanted again

  std::mutex turn;  // one leg copies at a time; before the file's lock
  // With turn.
  bool contested = false;       // there is or was a second leg
  const Leg* winner = nullptr;  // the only one that may still bring bytes
};

}  // namespace shardfs::fetch
