// Fact and Known: what is known of one name, since when, and in which order it was learned.
// Fact owns its strings; Known looks into a Fact or a Listing and is good while the tree's lock is held.
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "store/object.h"
#include "tree/tree.h"

namespace shardfs::tree {

enum class Presence : uint8_t { kUnknown, kAbsent, kFile, kDirectory };

/// `order` counts what the tree asks and is told: the greater one is the newer one, when the clock can't tell.
struct Fact {
  Presence presence = Presence::kUnknown;
  store::ObjectInfo info;  // files only
  base::SteadyTime at{};   // when the question was sent
  uint64_t order = 0;

  bool is_present() const { return presence == Presence::kFile || presence == Presence::kDirectory; }
};

struct Known {
  Presence presence = Presence::kUnknown;
  uint64_t size_bytes = 0;
  base::WallTime last_modified{};
  std::string_view etag;
  std::string_view storage_class;
  bool archived = false;
  base::SteadyTime at{};
  uint64_t order = 0;  // 0: nothing was ever known

  Known() = default;
  explicit Known(const Fact& fact)
      : presence(fact.presence),
        size_bytes(fact.info.size_bytes),
        last_modified(fact.info.last_modified),
        etag(fact.info.etag),
        storage_class(fact.info.storage_class),
        archived(fact.info.archived),
        at(fact.at),
        order(fact.order) {}
  Known(const ListedName& listed, base::SteadyTime listed_at, uint64_t listing_order)
      : presence(listed.kind == Kind::kFile ? Presence::kFile : Presence::kDirectory),
        size_bytes(listed.size_bytes),
        last_modified(listed.last_modified),
        etag(listed.etag),
        at(listed_at),
        order(listing_order) {}

  bool is_present() const { return presence == Presence::kFile || presence == Presence::kDirectory; }
  bool is_file() const { return presence == Presence::kFile; }
  /// The same with strings of its own. key: in full.
  Fact keep(std::string_view key) const {
    Fact fact{presence, {}, at, order};
    if (is_file()) {
      fact.info = store::ObjectInfo{std::string(key),           size_bytes, std::string(etag), last_modified,
                                    std::string(storage_class), archived};
    }
    return fact;
  }
};

}  // namespace shardfs::tree
