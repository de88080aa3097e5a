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

void Lister::count(const PageNames& page) {
  ++pages_;
  odd_ += page.odd;
  raw_ += page.raw;
}

base::Error Lister::endless() const {
  return {base::Code::kIntegrity,
          "the listing of \"" + prefix_ + "\" does not end: " + std::to_string(pages_) + " pages, the last " +
              std::to_string(idle_pages_) + " without a new name",
          0};
}

base::Result<bool> Lister::add(PageNames page, bool truncated, std::string continuation) {
  count(page);
  if (page.last_key > settled_key_) settled_key_ = std::move(page.last_key);
  merge(std::move(page.names));
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
  if (idle_pages_ >= kIdlePagesLimit || pages_ >= kPagesLimit) return tl::unexpected(endless());
  return true;
}

base::Result<void> Lister::add_part(PageNames page, std::string settled, bool last) {
  count(page);
  if (settled > settled_key_) settled_key_ = std::move(settled);
  merge(std::move(page.names));
  complete_ = last;
  if (!last && (idle_pages_ >= kIdlePagesLimit || pages_ >= kPagesLimit)) return tl::unexpected(endless());
  return {};
}

const ListedName* Lister::find(std::string_view name) const {
  auto run = runs_.upper_bound(std::string(name));
  if (run == runs_.begin()) return nullptr;
  const ListedName* found = find_name((--run)->second, name);
  if (found == nullptr || complete_ || found->kind == Kind::kDirectory) return found;
  // "name" comes before "name/..." with others between, perhaps whole pages of them.
  const std::string_view settled = settled_key_;
  std::string below(prefix_);
  below.append(name).push_back('/');
  return settled >= below ? found : nullptr;
}

std::vector<ListedName> Lister::take() {
  std::vector<ListedName> out;
  out.reserve(name_count_);
  while (!runs_.empty()) {
    auto run = runs_.extract(runs_.begin());
    std::move(run.mapped().begin(), run.mapped().end(), std::back_inserter(out));
  }
  name_count_ = 0;
  return out;
}

void Lister::merge(std::vector<ListedName> page) {
  const size_t before = name_count_;
  const auto by_name = [](const ListedName& a, const ListedName& b) { return a.name < b.name; };
  while (!page.empty()) {
    auto run = runs_.upper_bound(page.back().name);
    const bool apart = run == runs_.begin() || (--run)->second.back().name < page.front().name;
    if (apart) {  // the usual case: the page begins where others have ended
      name_count_ += page.size();
      std::string first = page.front().name;
      runs_.emplace(std::move(first), std::move(page));
      break;
    }
    // Joins the greatest run that it touches, and goes on with both.
    auto touched = std::move(runs_.extract(run).mapped());
    name_count_ -= touched.size();
    const auto middle = std::ssize(touched);
    touched.insert(touched.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
    std::inplace_merge(touched.begin(), touched.begin() + middle, touched.end(), by_name);
    const auto end = std::unique(touched.begin(), touched.end(), [&](ListedName& kept, ListedName& next) {
      if (kept.name != next.name) return false;
      if (kept.kind != next.kind) {
        warn_key_and_prefix(prefix_ + kept.name);
        if (next.kind == Kind::kDirectory) kept = std::move(next);
      }
      return true;
    });
    touched.erase(end, touched.end());
    page = std::move(touched);
  }
  idle_pages_ = name_count_ > before ? 0 : idle_pages_ + 1;
}

}  // namespace shardfs::tree
