#include "tree/name_index.h"

#include <bit>
#include <functional>
#include <utility>

namespace shardfs::tree {

NameIndex::NameIndex(std::shared_ptr<const Listing> listing)
    : listing_(std::move(listing)), slots_(std::bit_ceil(listing_->names.size() * 2 + 1)) {
  const size_t mask = slots_.size() - 1;
  for (uint32_t i = 0; i < listing_->names.size(); ++i) {
    const size_t hash = std::hash<std::string_view>()(listing_->names[i].name);
    size_t at = hash & mask;
    while (slots_[at].place != 0) at = (at + 1) & mask;
    slots_[at] = Slot{i + 1, static_cast<uint32_t>(hash >> 32)};
  }
}

const ListedName* NameIndex::find(std::string_view name) const {
  const size_t mask = slots_.size() - 1;
  const size_t hash = std::hash<std::string_view>()(name);
  for (size_t at = hash & mask; slots_[at].place != 0; at = (at + 1) & mask) {
    if (slots_[at].tag != static_cast<uint32_t>(hash >> 32)) continue;
    const ListedName& listed = listing_->names[slots_[at].place - 1];
    if (listed.name == name) return &listed;
  }
  return nullptr;
}

}  // namespace shardfs::tree
