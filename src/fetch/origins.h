// Origins: why each block of an object was fetched, and what of it was read: for hits by cause and wasted bytes.
// Not residence: a block may be gone and still be known here. Counted by whole blocks: one that was read anywhere was
// not wasted. Thread rule: confined to its SourceFile's lock. Eight bytes a block that was fetched.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "base/metrics.h"
#include "fetch/cause.h"

namespace shardfs::fetch {

/// What was predicted and not read yet when its file was forgotten.
struct Unread {
  Cause cause = Cause::kReadahead;
  uint64_t bytes = 0;
};

/// Counters by cause.
struct OriginMetrics {
  explicit OriginMetrics(base::Metrics& metrics);
  std::array<base::Counter*, kCauses> received;  // fetched for that cause
  std::array<base::Counter*, kCauses> used;      // of them, predicted and read
  std::array<base::Counter*, kCauses> read;      // answered to readers for the first time
  base::Counter& read_kept;                      // answered: resident before, or read before
};

class Origins {
 public:
  Origins(uint64_t object_bytes, OriginMetrics& metrics) : size_(object_bytes), metrics_(metrics) {}

  /// It was fetched and not read in an earlier life of the file's object.
  void carry(Unread unread) { carried_ = unread; }
  /// The block is about to be fetched, and nothing of it is there.
  void begin(uint32_t block, Cause cause);
  /// Within one block.
  void received(uint32_t block, Cause cause, uint64_t bytes);
  /// Answered to a reader; within one block.
  void read(uint32_t block, uint64_t bytes);
  /// The kernel reads it by itself from now on.
  void read_all();
  /// What was predicted and not read so far.
  std::optional<Unread> unread() const;

 private:
  struct Block {
    uint32_t read_bytes : 24 = 0;  // at most the block's size
    Cause ahead_cause = Cause::kReadahead;
    uint32_t ahead_bytes : 24 = 0;  // predicted, and not read yet
    uint8_t origin = 0;             // 0: not fetched here; else the cause + 1
  };
  Block* find(uint32_t block);
  void use(Block& block);
  void use_carried();

  const uint64_t size_;
  OriginMetrics& metrics_;
  std::vector<Block> blocks_;
  Unread carried_;
  bool carried_read_ = false;
};

/// Unread files of the mount whose objects were forgotten: as many as a job may have small files ahead.
/// Thread rule: thread-safe; its lock is a leaf.
class UnreadFiles {
 public:
  void put(const std::string& name, Unread unread);
  /// Nothing: not known.
  std::optional<Unread> take(const std::string& name);

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, Unread> files_;  // by the hash of the name: a mistake costs a number, no byte
};

}  // namespace shardfs::fetch
