// HintList: the names that a job says it opens next, in order. They go as they are opened; one that is offered again
// and again and not opened goes too. Not the judge of whether the list is right: ShardOrder scores it. Thread rule:
// thread-compatible. Pure. Owns its names.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardfs::readahead {

class HintList {
 public:
  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  void append(std::string name) { entries_.push_back({std::move(name), 0}); }

  /// A shard was opened by one of readers. True: it was one of the next in the list, and is taken out. Requires: not
  /// empty.
  bool take(std::string_view name, size_t readers);
  enum class Use { kOffer, kNotNow, kGone };
  /// The first names, at most count, of which use says kOffer; those that are kGone are taken out.
  /// offers: a name that stood at the front so often without being opened is taken out; 0: this time does not count.
  std::vector<std::string> next(size_t count, uint32_t offers, const std::function<Use(const std::string&)>& use);

 private:
  struct Entry {
    std::string name;
    uint32_t offered = 0;  // times
  };
  std::deque<Entry> entries_;
};

}  // namespace shardfs::readahead
