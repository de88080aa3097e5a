#include "tree/directory.h"

#include <utility>

#include "tree/names.h"

namespace shardfs::tree {

Known Directory::find(std::string_view name) const {
  Known best;
  if (listing_) {
    if (const ListedName* listed = index_ ? index_->find(name) : find_name(listing_->names, name)) {
      best = Known(*listed, listing_->listed_at, listing_order_);
    } else {
      best.presence = Presence::kAbsent;
      best.at = listing_->listed_at;
      best.order = listing_order_;
    }
  }
  if (partial_ && partial_->order() > best.order) {
    const ListedName* listed = partial_->find(name);
    if (listed != nullptr) best = Known(*listed, partial_->started_at(), partial_->order());
  }
  if (!facts_.empty()) {
    const auto fact = facts_.find(name);
    if (fact != facts_.end() && fact->second.order > best.order) best = Known(fact->second);
  }
  return best;
}

void Directory::learn(std::string_view name, Fact fact) {
  const auto place = facts_.find(name);
  if (place != facts_.end()) {
    if (fact.order > place->second.order) place->second = std::move(fact);
    return;
  }
  if (facts_.size() >= kFactsLimit) facts_.clear();
  facts_.emplace(name, std::move(fact));
}

void Directory::set_listing(std::shared_ptr<const Listing> listing, uint64_t order) {
  listing_ = std::move(listing);
  index_ = nullptr;
  listing_order_ = order;
  partial_ = nullptr;
  unknown_lookups = 0;
  late_uses.reset();
  std::erase_if(facts_, [&](const auto& fact) { return fact.second.order <= order; });
}

void Directory::set_index(std::shared_ptr<const NameIndex> index) {
  if (index->listing() == listing_) index_ = std::move(index);
}

void Directory::distrust(std::string_view name, uint64_t order) {
  distrusted_order_ = order;
  Fact fact;
  fact.order = order;
  learn(name, std::move(fact));
}

size_t Directory::weight() const {
  return facts_.size() + (listing_ ? listing_->names.size() : 0) + (partial_ ? partial_->name_count() : 0);
}

Directory* DirectoryTable::find(std::string_view path) {
  const auto slot = by_path_.find(path);
  if (slot == by_path_.end()) return nullptr;
  mark_used(slot->second.place);
  return &slot->second.directory;
}

Directory& DirectoryTable::touch(std::string_view path) {
  auto slot = by_path_.find(path);
  if (slot == by_path_.end()) {
    slot = by_path_.emplace(std::string(path), Slot{}).first;
    oldest_first_.push_back(&slot->first);
    slot->second.place = std::prev(oldest_first_.end());
  } else {
    mark_used(slot->second.place);
  }
  return slot->second.directory;
}

std::vector<Directory> DirectoryTable::settle(std::string_view path) {
  const auto recount = [this](Slot& slot) {
    const size_t weight = slot.directory.weight() + 1;  // an empty one takes room too
    names_ += weight - slot.weight;
    slot.weight = weight;
  };
  std::vector<Directory> dropped;
  const auto changed = by_path_.find(path);
  if (changed == by_path_.end()) return dropped;
  recount(changed->second);
  while (names_ > limit_ && by_path_.size() > 1) {
    auto victim = oldest_first_.begin();
    if (*victim == &changed->first) ++victim;
    const auto slot = by_path_.find(**victim);
    names_ -= slot->second.weight;
    dropped.push_back(std::move(slot->second.directory));
    oldest_first_.erase(victim);
    by_path_.erase(slot);
  }
  gauge_.set(static_cast<int64_t>(names_));
  return dropped;
}

std::vector<Directory> DirectoryTable::drop_below(std::string_view path) {
  std::vector<Directory> dropped;
  for (auto slot = by_path_.begin(); slot != by_path_.end();) {
    if (!is_at_or_below(slot->first, path)) {
      ++slot;
      continue;
    }
    names_ -= slot->second.weight;
    dropped.push_back(std::move(slot->second.directory));
    oldest_first_.erase(slot->second.place);
    slot = by_path_.erase(slot);
  }
  gauge_.set(static_cast<int64_t>(names_));
  return dropped;
}

}  // namespace shardfs::tree
