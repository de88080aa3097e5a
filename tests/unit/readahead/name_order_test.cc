#include "readahead/name_order.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace shardfs::readahead {
namespace {

using Names = std::vector<std::string>;

Names listed(const NameOrder& order) {
  Names names;
  for (uint32_t place = 0; place < order.size(); ++place) names.push_back(order.name(place));
  return names;
}

TEST_CASE("digits compare as numbers, whichever of them varies") {
  const Names cases[] = {
      {"8", "9", "10", "11"},
      {"s-098.tar", "s-099.tar", "s-100.tar"},
      {"s9.tar", "s10.tar", "s99.tar", "s100.tar"},
      {"train-00001-of-00128", "train-00002-of-00128", "train-00010-of-00128"},
      {"run-2-part-9", "run-2-part-10", "run-10-part-1"},
      {"samples-0-999.tar", "samples-1000-1999.tar", "samples-10000-10999.tar"},
      {"a", "a1", "a1b", "a2", "b"},
      {"1", "01", "001", "2"},
      {"x99999999999999999999998", "x99999999999999999999999", "x100000000000000000000000"},
      {"\x01", "A", "a", "\xff"},
  };
  for (const Names& names : cases) {
    CAPTURE(names.front());
    for (size_t a = 0; a < names.size(); ++a) {
      for (size_t b = 0; b < names.size(); ++b) {
        // Equal values are told apart by their texts, in some order that is always the same.
        if (a != b && names.front() == "1" && a < 3 && b < 3) {
          CHECK(compare_natural(names[a], names[b]) * compare_natural(names[b], names[a]) < 0);
          continue;
        }
        const int order = compare_natural(names[a], names[b]);
        CHECK((order < 0) == (a < b));
        CHECK((order == 0) == (a == b));
      }
    }
  }
}

TEST_CASE("names are found, each once; extensions stand apart") {
  const NameOrder order({"s-10.tar", "s-9.json", "s-9.tar", "s-10.json", "s-9.tar", "index"});
  CHECK(listed(order) == Names{"index", "s-9.json", "s-10.json", "s-9.tar", "s-10.tar"});
  for (uint32_t place = 0; place < order.size(); ++place) CHECK(order.find(order.name(place)) == place);
  for (const char* name : {"", "s-9", "s-09.tar", "s-11.tar", "z", "index "}) CHECK_FALSE(order.find(name));
}

TEST_CASE("a series is what differs in its numbers; what has no numbers is one, too") {
  const NameOrder order({"train-0.tar", "train-1.tar", "train-2.tar", "val-0.tar", "val-1.tar", "val-2.tar", "z.tar"});
  CHECK(order.starts_series(0));
  CHECK(order.starts_series(3));
  CHECK(order.starts_series(6));
  CHECK(order.at_distance(1, 1) == 2);
  CHECK_FALSE(order.at_distance(2, 1));
  CHECK_FALSE(order.at_distance(3, -1));
  CHECK_FALSE(order.at_distance(6, 1));
  CHECK_FALSE(order.at_distance(0, -1));

  const NameOrder words({"alpha.bin", "beta.bin", "delta.bin", "gamma.bin"});
  CHECK(words.at_distance(0, 3) == 3);
  const NameOrder hashes({"0ab1.bin", "1ab2.bin", "3c.bin", "a9f.bin", "b3.bin"});
  CHECK(hashes.at_distance(0, 4) == 4);
  // Numbers after the last dot are no extensions of their own.
  const NameOrder records({"x.tfrecord-00000-of-00003", "x.tfrecord-00001-of-00003", "x.tfrecord-00002-of-00003"});
  CHECK(records.at_distance(0, 2) == 2);
  CHECK(NameOrder().size() == 0);
}

}  // namespace
}  // namespace shardfs::readahead
