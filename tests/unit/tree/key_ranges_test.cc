#include "tree/key_ranges.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

namespace shardfs::tree {
namespace {

/// A store's directory: pages of `limit` keys, in order.
struct Keys {
  std::vector<std::string> sorted;
  size_t limit = 1000;

  KeyRanges::Page page(const std::string& start_after, std::set<std::string>& seen) const {
    auto at = std::upper_bound(sorted.begin(), sorted.end(), start_after);
    store::ListPage page;
    for (size_t i = 0; i < limit && at != sorted.end(); ++i, ++at) {
      page.objects.push_back({*at, 1, "e", {}, {}, false});
      seen.insert(*at);
    }
    page.truncated = at != sorted.end();
    return KeyRanges::Page::of(page);
  }
};

struct Run {
  std::set<std::string> seen;
  size_t pages = 0;
  size_t rounds = 0;  // if all questions of a round were answered at the same time
  bool in_order = true;
};

/// Answers in any order that the seed says.
Run run(const Keys& keys, const std::string& prefix, unsigned seed = 0) {
  Run out;
  std::minstd_rand random(seed);
  const auto first = keys.page(prefix, out.seen);
  out.pages = out.rounds = 1;
  if (!first.truncated) return out;
  KeyRanges ranges(prefix, first);
  while (!ranges.done()) {
    std::vector<KeyRanges::Question> questions;
    while (auto question = ranges.next()) questions.push_back(std::move(*question));
    REQUIRE_FALSE(questions.empty());
    CHECK(questions.size() <= KeyRanges::kPagesAtOnce);
    if (seed != 0) std::shuffle(questions.begin(), questions.end(), random);
    for (const auto& question : questions) {
      // What is settled has been seen, whatever is still under way.
      const std::string settled = ranges.settled();
      for (const auto& key : keys.sorted) {
        if (key > settled) break;
        if (!out.seen.contains(key)) FAIL(key << " is not seen, but settled");
      }
      out.in_order = ranges.add(question.id, keys.page(question.start_after, out.seen)) && out.in_order;
      ++out.pages;
    }
    ++out.rounds;
  }
  return out;
}

Keys numbered(size_t count, const char* format) {
  Keys keys;
  for (size_t i = 0; i < count; ++i) keys.sorted.push_back(fmt::format(fmt::runtime(format), i));
  std::sort(keys.sorted.begin(), keys.sorted.end());
  return keys;
}

void check_all(const Keys& keys, const std::string& prefix, size_t most_rounds) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const Run result = run(keys, prefix, seed);
    CHECK(result.in_order);
    CHECK(std::equal(result.seen.begin(), result.seen.end(), keys.sorted.begin(), keys.sorted.end()));
    CHECK(result.rounds <= most_rounds);
    CHECK(result.pages <= keys.sorted.size() / keys.limit * 5 / 2 + 40);
  }
}

TEST_CASE("numbered names are listed in a few rounds") {
  check_all(numbered(20000, "set/img_{:06}.jpg"), "set/", 8);
  check_all(numbered(20000, "set/{}.jpg"), "set/", 9);
  check_all(numbered(100000, "set/shard-{:08}-of-00100000.tar"), "set/", 25);
}

TEST_CASE("names without an order in them") {
  Keys hashes;
  std::mt19937_64 random(7);
  for (int i = 0; i < 30000; ++i) hashes.sorted.push_back(fmt::format("h/{:016x}", random()));
  std::sort(hashes.sorted.begin(), hashes.sorted.end());
  check_all(hashes, "h/", 14);
  Keys words;
  for (int i = 0; i < 20000; ++i) {
    std::string word = "w/";
    for (int n = 0; n < 6; ++n) word += static_cast<char>((i % 3 == 0 ? 'A' : 'a') + random() % 26);
    words.sorted.push_back(word);
  }
  std::sort(words.sorted.begin(), words.sorted.end());
  words.sorted.erase(std::unique(words.sorted.begin(), words.sorted.end()), words.sorted.end());
  check_all(words, "w/", 14);
}

TEST_CASE("names that nothing can be cut at are listed one page after the other, and all of them") {
  Keys keys;
  keys.limit = 10;
  for (int i = 0; i < 300; ++i)
    keys.sorted.push_back(std::string("p/") + static_cast<char>(0x80 + i % 60) +
                          std::string(1, static_cast<char>(1 + i / 60)));
  std::sort(keys.sorted.begin(), keys.sorted.end(), [](const std::string& a, const std::string& b) { return a < b; });
  const Run result = run(keys, "p/");
  CHECK(result.seen.size() == keys.sorted.size());
}

TEST_CASE("a directory of two pages costs few questions") {
  const Run result = run(numbered(1500, "d/{:05}"), "d/");
  CHECK(result.seen.size() == 1500);
  CHECK(result.pages <= 3);
}

TEST_CASE("keys that are cuts themselves are not lost") {
  Keys keys = numbered(3000, "d/{:04}");
  for (const char* cut : {"d/1", "d/2", "d/9", "d/01", "d/a"}) keys.sorted.push_back(cut);
  std::sort(keys.sorted.begin(), keys.sorted.end());
  check_all(keys, "d/", 12);
}

TEST_CASE("a store that does not keep the order is found out") {
  KeyRanges::Page first{"d/0000", "d/0999", true, true, false};
  const auto fresh = [&] { return KeyRanges("d/", first); };
  auto backwards = fresh();
  CHECK_FALSE(backwards.add(backwards.next()->id, {"d/0000", "d/0999", true, true, false}));  // ignores start-after
  auto unsorted = fresh();
  CHECK_FALSE(unsorted.add(unsorted.next()->id, {"d/1000", "d/1999", false, true, false}));
  auto endless = fresh();
  CHECK_FALSE(endless.add(endless.next()->id, {"", "", true, true, false}));  // goes on, with nothing in it
  auto good = fresh();
  CHECK(good.add(good.next()->id, {"d/1000", "d/1999", true, false, false}));
  CHECK(good.done());
}

TEST_CASE("behind a common prefix the next page begins behind all that lies in it") {
  KeyRanges ranges("d/", {"d/a", "d/b/", true, true, false});
  const auto question = ranges.next();
  REQUIRE(question.has_value());
  CHECK(question->start_after > "d/b/zzzz");
  CHECK(question->start_after < "d/c");
}

}  // namespace
}  // namespace shardfs::tree
