#include "tree/key_ranges.h"

#include <algorithm>
#include <vector>

namespace shardfs::tree {
namespace {

// Of one directory; beyond it the ranges that are there are listed page by page.
constexpr size_t kRangesLimit = 512;
// After "dir/" + this come the keys behind all of those below dir.
constexpr std::string_view kLastCodePoint = "\xf4\x8f\xbf\xbf";

/// After which key the next page begins.
std::string after(const std::string& last_key) {
  return last_key.ends_with('/') ? last_key + std::string(kLastCodePoint) : last_key;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

/// What may stand in the place of this character in greater keys: its own kind.
void add_greater(char c, bool hexadecimal, std::string_view rest, std::vector<std::string>& cuts) {
  const auto add = [&](char from, char to) {
    for (char next = from; next <= to; ++next) cuts.push_back(std::string(rest) + next);
  };
  if (is_digit(c)) {
    if (c < '9') add(static_cast<char>(c + 1), '9');
    if (hexadecimal) add('a', 'f');
  } else if (is_lower(c)) {
    const char last = hexadecimal ? 'f' : 'z';
    if (c < last) add(static_cast<char>(c + 1), last);
  } else if (is_upper(c) && c < 'Z') {
    add(static_cast<char>(c + 1), 'Z');
  }
}

/// The first character in which the keys between these two differ.
size_t first_difference(std::string_view first, std::string_view last) {
  return static_cast<size_t>(std::mismatch(first.begin(), first.end(), last.begin(), last.end()).second - last.begin());
}

}  // namespace

KeyRanges::Page KeyRanges::Page::of(const store::ListPage& page) {
  Page out;
  out.truncated = page.truncated;
  const auto by_key = [](const auto& a, const auto& b) { return a.key < b.key; };
  out.in_order = std::is_sorted(page.objects.begin(), page.objects.end(), by_key) &&
                 std::is_sorted(page.prefixes.begin(), page.prefixes.end());
  if (!page.objects.empty()) {
    out.first_key = page.objects.front().key;
    out.last_key = page.objects.back().key;
  }
  if (!page.prefixes.empty()) {
    out.first_key = out.first_key.empty() ? page.prefixes.front() : std::min(out.first_key, page.prefixes.front());
    out.last_key = std::max(out.last_key, page.prefixes.back());
  }
  // Behind it the names of one page have all that may stand there.
  const size_t at = first_difference(out.first_key, out.last_key) + 1;
  const auto has_letter = [&](std::string_view key) { return key.size() > at && key[at] >= 'a' && key[at] <= 'f'; };
  const auto has_digit = [&](std::string_view key) { return key.size() > at && is_digit(key[at]); };
  const auto in_any = [&](const auto& test) {
    return std::any_of(page.objects.begin(), page.objects.end(),
                       [&](const auto& object) { return test(object.key); }) ||
           std::any_of(page.prefixes.begin(), page.prefixes.end(), test);
  };
  out.hexadecimal = in_any(has_letter) && in_any(has_digit);
  return out;
}

KeyRanges::KeyRanges(std::string prefix, const Page& first) : prefix_(std::move(prefix)) {
  split(first, after(first.last_key), {});
}

std::optional<KeyRanges::Question> KeyRanges::next() {
  if (asked_.size() >= at_once_) return std::nullopt;
  auto free = ranges_.end();
  bool under_way = false;  // the range before
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const bool asked = range->second.asked != 0;
    // Rather not right behind one that is under way: its page may reach into this one.
    if (!asked && (free == ranges_.end() || !under_way)) free = range;
    if (!asked && !under_way) break;
    under_way = asked;
  }
  if (free == ranges_.end()) return std::nullopt;
  free->second.asked = next_id_++;
  asked_[free->second.asked] = free->first;
  return Question{free->second.asked, free->first};
}

bool KeyRanges::add(uint64_t id, const Page& page) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return true;
  const std::string begin = std::move(asked->second);
  asked_.erase(asked);
  if (!page.in_order || (!page.last_key.empty() && page.last_key <= begin)) return false;
  // A prefix may be less than the key that was asked for, if there are greater keys below it.
  if (!page.first_key.empty() && page.first_key <= begin && !page.first_key.ends_with('/')) return false;
  if (page.truncated && page.last_key.empty()) return false;
  const auto range = ranges_.find(begin);
  if (range == ranges_.end() || range->second.asked != id) return true;  // what lies there is known by now
  const std::string end = std::move(range->second.end);
  ranges_.erase(range);
  if (!page.truncated) {
    ranges_.erase(ranges_.upper_bound(begin), ranges_.end());
    return true;
  }
  at_once_ = std::min(kPagesAtOnce, at_once_ + 2);
  const std::string last = after(page.last_key);
  cover(begin, last);
  if (end.empty() || last < end) split(page, last, end);
  return true;
}

// Of the ranges that nobody has asked for: what the page holds, from where it began to its last key.
void KeyRanges::cover(const std::string& begin, const std::string& last) {
  std::optional<Range> rest;
  for (auto range = ranges_.lower_bound(begin); range != ranges_.end() && range->first < last;) {
    if (range->second.asked != 0) {
      ++range;
      continue;
    }
    if (range->second.end.empty() || range->second.end > last) rest = std::move(range->second);
    range = ranges_.erase(range);
  }
  if (rest) ranges_.emplace(last, std::move(*rest));
}

void KeyRanges::split(const Page& page, const std::string& begin, const std::string& end) {
  const std::string_view first = page.first_key, last = page.last_key;
  std::vector<std::string> cuts;
  if (ranges_.size() < kRangesLimit) {
    // Names that differ only behind this character fit a page.
    const size_t deepest = std::min(first_difference(first, last), last.size() - 1);
    for (size_t at = deepest + 1; at-- > prefix_.size();)
      add_greater(last[at], page.hexadecimal, last.substr(0, at), cuts);
  }
  std::erase_if(cuts, [&](const std::string& cut) { return cut <= begin || (!end.empty() && cut >= end); });
  std::sort(cuts.begin(), cuts.end());
  std::string from = begin;
  for (auto& cut : cuts) {
    ranges_.try_emplace(from, Range{cut, 0});
    from = std::move(cut);
  }
  ranges_.try_emplace(from, Range{end, 0});
}

}  // namespace shardfs::tree
