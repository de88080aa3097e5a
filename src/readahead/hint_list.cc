#include "readahead/hint_list.h"

#include <algorithm>

namespace shardfs::readahead {
namespace {

// How far from its front a list is searched, for each reader. Source: workers are some batches apart, seldom more than
// two shards; a reader that is two shards ahead of the slowest one is still found.
constexpr size_t kReachPerReader = 4;

}  // namespace

bool HintList::take(std::string_view name, size_t readers) {
  const size_t reach = std::min(entries_.size(), kReachPerReader * (readers + 1));
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(reach);
  const auto found = std::find_if(entries_.begin(), end, [&](const Entry& entry) { return entry.name == name; });
  if (found == end) return false;
  entries_.erase(found);
  return true;
}

std::vector<std::string> HintList::next(size_t count, uint32_t offers,
                                        const std::function<Use(const std::string&)>& use) {
  std::vector<std::string> names;
  for (size_t i = 0; i < entries_.size() && names.size() < count;) {
    Entry& entry = entries_[i];
    const Use how = use(entry.name);
    if (how == Use::kGone || (offers > 0 && entry.offered >= offers)) {
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (offers > 0) ++entry.offered;
    if (how == Use::kOffer) names.push_back(entry.name);
    ++i;
  }
  return names;
}

}  // namespace shardfs::readahead
