// KeyRanges: which parts of a long directory are still to be listed, so that several pages can be asked for at once.
// Not the names (lister.h), and no requests: it says after which key to ask, and is told what the page held.
// It relies on pages in the order of the keys, which the store may not keep: add() says so, and the caller starts anew,
// one page after the other. Why cut so: docs/decisions/0015.
// Thread rule: confined to the tree's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "store/object_store.h"

namespace shardfs::tree {

class KeyRanges {
 public:
  /// Pages at once. Source: with 50 ms a page a million names then take a tenth of the time of one after the other, and
  /// a store takes so many from one client.
  static constexpr unsigned kPagesAtOnce = 16;

  struct Question {
    uint64_t id = 0;
    std::string start_after;
  };
  /// A page as it came; keys in full.
  struct Page {
    std::string first_key, last_key;  // the least and the greatest key or prefix; empty: the page is empty
    bool in_order = true;
    bool truncated = false;
    bool hexadecimal = false;  // letters a to f stand where digits do
    static Page of(const store::ListPage& page);
  };

  /// first: the directory's first page, truncated and in order.
  KeyRanges(std::string prefix, const Page& first);
  /// Nothing: as many as are worth it are under way, or nothing is left to ask.
  std::optional<Question> next();
  /// False: the store does not keep the order that this relies on.
  bool add(uint64_t id, const Page& page);
  bool done() const { return ranges_.empty(); }
  /// Every key up to this one has been listed.
  std::string settled() const { return ranges_.empty() ? std::string() : ranges_.begin()->first; }

 private:
  struct Range {
    std::string end;     // the last key that belongs to it; empty: there is no end
    uint64_t asked = 0;  // the question that is under way; 0: none
  };
  void cover(const std::string& begin, const std::string& last);
  void split(const Page& page, const std::string& begin, const std::string& end);

  const std::string prefix_;
  std::map<std::string, Range> ranges_;    // by the key after which they begin
  std::map<uint64_t, std::string> asked_;  // where the ranges begin that are under way
  uint64_t next_id_ = 1;
  // Starts small: a directory of a few pages is not worth many questions.
  unsigned at_once_ = 2;
};

}  // namespace shardfs::tree
