#include "tree/lister.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardfs::tree {

const ListedName* find_name(const std::vector<ListedName>& sorted, std::string_view name) {
  const auto place = std::lower_bound(sorted.begin(), sorted.end(), name,
                                      [](const ListedName& listed, std::string_view key) { return listed.name < key; });
  return place != sorted.end() && place->name == name ? &*place : nullptr;
}

base::Result<bool> Lister::add(PageNames page, bool truncated, std::string continuation) {
  ++pages_;
  odd_ += page.odd;
  raw_ += page.raw;
  if (page.last_key > settled_key_) settled_key_ = std::move(page.last_key);
  const size_t before = names_.size();
  merge(std::move(page.names));
  idle_pages_ = names_.size() > before ? 0 : idle_pages_ + 1;
  if (!truncated) {
    complete_ = true;
    return false;
  }
  const bool same_token = continuation.empty() || continuation == continuation_;
  continuation_ = std::move(continuation);
  if (same_token) {
    return base::fail(base::Code::kIntegrity,
                      "the listing of \"" + prefix_ + "\" is said to go on, but without a new continuation token");
  }
  if (idle_pages_ >= kIdlePagesLimit || pages_ >= kPagesLimit) {
    return base::fail(base::Code::kIntegrity, "the listing of \"" + prefix_ +
                                                  "\" does not end: " + std::to_string(pages_) + " pages, the last " +
                                                  std::to_string(idle_pages_) + " without a new name");
  }
  return true;
}

const ListedName* Lister::find(std::string_view name) const {
  const ListedName* found = find_name(names_, name);
  if (found == nullptr || complete_ || found->kind == Kind::kDirectory) return found;
  // "name" comes before "name/..." with others between, perhaps whole pages of them.
  const std::string_view settled = settled_key_;
  std::string below(prefix_);
  below.append(name).push_back('/');
  return settled >= below ? found : nullptr;
}

void Lister::merge(std::vector<ListedName> page) {
  if (page.empty()) return;
  const auto by_name = [](const ListedName& a, const ListedName& b) { return a.name < b.name; };
  const auto first_touched = std::lower_bound(names_.begin(), names_.end(), page.front(), by_name) - names_.begin();
  const auto middle = std::ssize(names_);
  if (names_.empty()) {
    names_ = std::move(page);
  } else {
    names_.insert(names_.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
  }
  if (first_touched == middle) return;  // the usual case: the page begins where the last one ended
  std::inplace_merge(names_.begin() + first_touched, names_.begin() + middle, names_.end(), by_name);
  const auto end = std::unique(names_.begin() + first_touched, names_.end(), [&](ListedName& kept, ListedName& next) {
    if (kept.name != next.name) return false;
    if (kept.kind != next.kind) {
      warn_key_and_prefix(prefix_ + kept.name);
      if (next.kind == Kind::kDirectory) kept = std::move(next);
    }
    return true;
  });
  names_.erase(end, names_.end());
}

}  // namespace shardfs::tree
