#include "readahead/name_order.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace shardfs::readahead {
namespace {

// Names that differ in their numbers only and are at least so many begin a series of their own. Source: among names
// that are hashes, two neighbours of one shape are common and three are not.
constexpr uint32_t kSeriesNames = 3;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t end_of_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

int compare_bytes(char a, char b) { return static_cast<unsigned char>(a) - static_cast<unsigned char>(b); }

// As texts in which each run of digits is one digit.
int compare_shapes(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      i = end_of_digits(a, i);
      j = end_of_digits(b, j);
    } else if (const int order = compare_bytes(a[i], b[j]); order != 0) {
      return order;
    } else {
      ++i;
      ++j;
    }
  }
  return static_cast<int>(i < a.size()) - static_cast<int>(j < b.size());
}

std::string_view extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot);
}

bool before(std::string_view a, std::string_view b) {
  const int extensions = compare_shapes(extension(a), extension(b));
  return extensions != 0 ? extensions < 0 : compare_natural(a, b) < 0;
}

}  // namespace

int compare_natural(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (const int order = compare_bytes(a[i], b[j]); order != 0) return order;
      ++i;
      ++j;
      continue;
    }
    const size_t a_end = end_of_digits(a, i);
    const size_t b_end = end_of_digits(b, j);
    while (i < a_end && a[i] == '0') ++i;
    while (j < b_end && b[j] == '0') ++j;
    if (a_end - i != b_end - j) return a_end - i < b_end - j ? -1 : 1;
    if (const int order = a.substr(i, a_end - i).compare(b.substr(j, b_end - j)); order != 0) return order;
    i = a_end;
    j = b_end;
  }
  if (i < a.size() || j < b.size()) return i < a.size() ? 1 : -1;
  return a.compare(b);  // they differ in leading zeros at most
}

NameOrder::NameOrder(std::vector<std::string> names) {
  // A listing is sorted as bytes: each extension's names are then in order already, unless their numbers have no zeros.
  struct ShapeBefore {
    bool operator()(std::string_view a, std::string_view b) const { return compare_shapes(a, b) < 0; }
  };
  std::map<std::string, std::vector<std::string>, ShapeBefore> by_extension;
  for (auto& name : names) by_extension[std::string(extension(name))].push_back(std::move(name));
  names_.reserve(names.size());
  for (auto& [shape, same] : by_extension) {
    const auto natural = [](const std::string& a, const std::string& b) { return compare_natural(a, b) < 0; };
    if (!std::is_sorted(same.begin(), same.end(), natural)) std::sort(same.begin(), same.end(), natural);
    std::move(same.begin(), same.end(), std::back_inserter(names_));
  }
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  series_.resize(names_.size());
  uint32_t series = 0;
  uint32_t length_before = 0;  // of the run of one shape that ends here
  for (uint32_t begin = 0; begin < size();) {
    uint32_t end = begin + 1;
    while (end < size() && compare_shapes(names_[begin], names_[end]) == 0) ++end;
    const bool alone = end - begin >= kSeriesNames || length_before >= kSeriesNames;
    if (begin > 0 && (alone || compare_shapes(extension(names_[begin - 1]), extension(names_[begin])) != 0)) {
      ++series;
    }
    std::fill(series_.begin() + begin, series_.begin() + end, series);
    length_before = end - begin;
    begin = end;
  }
}

uint32_t NameOrder::lower_bound(std::string_view name) const {
  return static_cast<uint32_t>(std::lower_bound(names_.begin(), names_.end(), name, before) - names_.begin());
}

std::optional<uint32_t> NameOrder::find(std::string_view name) const {
  const uint32_t place = lower_bound(name);
  if (place == size() || names_[place] != name) return std::nullopt;
  return place;
}

std::vector<std::optional<uint32_t>> NameOrder::places_in(const NameOrder& other) const {
  std::vector<std::optional<uint32_t>> places(size());
  uint32_t there = 0;
  for (uint32_t here = 0; here < size(); ++here) {
    while (there < other.size() && other.names_[there] != names_[here] && before(other.names_[there], names_[here])) {
      ++there;
    }
    if (there < other.size() && other.names_[there] == names_[here]) places[here] = there++;
  }
  return places;
}

std::optional<uint32_t> NameOrder::at_distance(uint32_t place, int64_t steps) const {
  const int64_t wanted = place + steps;
  if (wanted < 0 || wanted >= size() || !same_series(place, static_cast<uint32_t>(wanted))) return std::nullopt;
  return static_cast<uint32_t>(wanted);
}

}  // namespace shardfs::readahead
