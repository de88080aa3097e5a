// Counters: what was asked of the server and what it sent, in total, by key and in order.
// Body bytes are counted as they are handed to the socket, before the client can see them: a client that has got a
// whole body finds it counted, and one that leaves in the midst is counted a piece (256 KiB) too many at most.
// Thread rule: thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "teststore/message.h"

namespace shardfs::teststore {

using KindCounts = std::array<uint64_t, 6>;  // indexed by Kind

struct KeyStats {
  KindCounts requests{};
  uint64_t body_bytes = 0;  // of objects, sent in answers to GETs
  uint64_t concurrent = 0;  // being answered now
  uint64_t max_concurrent = 0;
  std::vector<AskedRange> ranges;  // of the GETs, in order, clipped to the object; only the first kRecentLimit
};

/// One request, in the order in which they were received.
struct RequestRecord {
  uint64_t number = 0;
  Kind kind = Kind::kOther;
  std::string method;
  std::string bucket;
  std::string key;      // of a listing: the prefix
  std::string range;    // the header, as it came
  AskedRange asked;     // GET of an object
  unsigned status = 0;  // 0: not answered yet, or never
};

struct Stats {
  KindCounts requests{};
  uint64_t body_bytes = 0;
  std::map<unsigned, uint64_t> statuses;
  uint64_t connections_accepted = 0;  // those that brought a request, not only for the control plane
  uint64_t connections_open = 0;      // now
  uint64_t requests_now = 0;
  uint64_t max_concurrent_requests = 0;
  std::map<std::pair<std::string, std::string>, KeyStats> keys;  // by bucket and key

  uint64_t of(Kind kind) const { return requests[static_cast<size_t>(kind)]; }
};

class Counters {
 public:
  static constexpr size_t kRecentLimit = 20000;  // Source: ~100 bytes each, so 2 MB of memory at most

  Counters();

  /// One request under way. Destroying it ends the request.
  class Running {
   public:
    Running(Counters& counters, const Request& request, const AskedRange& asked);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    /// Requests under way when it came, with it.
    uint64_t concurrent() const { return concurrent_; }
    void answered(unsigned status);
    void body(uint64_t bytes);
    /// No longer counts as concurrent; said before the last byte goes out, so that requests that a client makes one
    /// after the other never seem to overlap. May be repeated.
    void finish();

   private:
    Counters& counters_;
    std::shared_ptr<struct Epoch> epoch_;
    struct LiveKey* key_ = nullptr;  // owned by epoch_; null when the request names no key
    uint64_t concurrent_ = 0;
    bool finished_ = false;
    size_t record_ = SIZE_MAX;  // index in the epoch's log
  };

  void connection_opened();
  void connection_closed();

  Stats stats() const;
  std::vector<RequestRecord> log() const;  // the first kRecentLimit since the reset
  /// All counts back to zero; what is under way goes on uncounted, but in requests_now.
  void reset();

 private:
  std::shared_ptr<struct Epoch> epoch() const;

  mutable std::mutex mutex_;
  std::shared_ptr<struct Epoch> epoch_;
  std::atomic<uint64_t> connections_open_{0};
  std::atomic<uint64_t> requests_now_{0};
};

}  // namespace shardfs::teststore
