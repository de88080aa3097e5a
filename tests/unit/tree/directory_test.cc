#include "tree/directory.h"

#include <doctest/doctest.h>

using namespace shardfs;
using namespace shardfs::tree;

namespace {

std::shared_ptr<const Listing> listing_of(std::vector<std::string> names) {
  auto listing = std::make_shared<Listing>();
  for (auto& name : names) listing->names.push_back(ListedName{std::move(name), Kind::kFile, 7, {}, "\"l\""});
  return listing;
}

Fact fact_of(Presence presence, uint64_t order) {
  Fact fact;
  fact.presence = presence;
  fact.order = order;
  return fact;
}

}  // namespace

TEST_CASE("the newest of listing and single facts counts") {
  Directory directory;
  CHECK(directory.find("a").order == 0);
  directory.learn("a", fact_of(Presence::kFile, 1));
  directory.learn("gone", fact_of(Presence::kFile, 2));
  directory.learn("late", fact_of(Presence::kAbsent, 9));
  directory.set_listing(listing_of({"a", "late"}), 5);
  CHECK(directory.find("a").order == 5);
  CHECK(directory.find("a").size_bytes == 7);
  CHECK(directory.find("gone").presence == Presence::kAbsent);
  CHECK(directory.find("late").presence == Presence::kAbsent);
  CHECK(directory.find("late").order == 9);
  CHECK(directory.weight() == 3);
  directory.learn("late", fact_of(Presence::kFile, 8));  // an answer that was overtaken
  CHECK(directory.find("late").presence == Presence::kAbsent);
}

TEST_CASE("an index finds what is listed, and belongs to its listing only") {
  auto listing = std::make_shared<Listing>();
  for (int i = 10000; i < 15000; ++i) listing->names.push_back(ListedName{std::to_string(i)});
  const auto index = std::make_shared<const NameIndex>(listing);
  for (const auto& listed : listing->names) CHECK(index->find(listed.name) == &listed);
  CHECK(index->find("15000") == nullptr);
  CHECK(index->find("") == nullptr);
  CHECK(NameIndex(std::make_shared<Listing>()).find("a") == nullptr);
  Directory directory;
  directory.set_listing(listing, 1);
  directory.set_index(index);
  CHECK(directory.find("12345").presence == Presence::kFile);
  CHECK(directory.find("9").presence == Presence::kAbsent);
  directory.set_listing(listing_of({"a"}), 2);
  directory.set_index(index);  // too late
  CHECK(directory.find("a").presence == Presence::kFile);
  CHECK(directory.find("12345").presence == Presence::kAbsent);
}

TEST_CASE("distrust makes a name unknown and the listing suspect until a newer listing") {
  Directory directory;
  directory.set_listing(listing_of({"a"}), 1);
  directory.distrust("a", 2);
  CHECK(directory.find("a").presence == Presence::kUnknown);
  CHECK(directory.find("a").order == 2);
  CHECK(directory.listing_suspect());
  directory.set_listing(listing_of({"a"}), 3);
  CHECK_FALSE(directory.listing_suspect());
  CHECK(directory.find("a").presence == Presence::kFile);
  directory.distrust("a", 4);
  directory.set_listing(listing_of({"a"}), 3);  // started before the distrust
  CHECK(directory.listing_suspect());
  CHECK(directory.find("a").presence == Presence::kUnknown);
}

TEST_CASE("names known one by one have a limit") {
  Directory directory;
  for (size_t i = 0; i <= Directory::kFactsLimit; ++i) {
    directory.learn(std::to_string(i), fact_of(Presence::kAbsent, i + 1));
  }
  CHECK(directory.weight() <= Directory::kFactsLimit);
}

TEST_CASE("the directories that were not used for longest are dropped first") {
  base::Gauge gauge;
  DirectoryTable table(10, gauge);
  for (const char* path : {"a", "b", "c"}) {
    table.touch(path).set_listing(listing_of({"1", "2"}), 1);
    CHECK(table.settle(path).empty());
  }
  CHECK(gauge.value() == 9);
  CHECK(table.find("a") != nullptr);  // and is used
  table.touch("d").set_listing(listing_of({"1", "2"}), 1);
  CHECK(table.settle("d").size() == 1);
  CHECK(table.find("b") == nullptr);
  CHECK(table.find("a") != nullptr);
  table.touch("big").set_listing(listing_of(std::vector<std::string>(50, "n")), 1);
  CHECK(table.settle("big").size() == 3);
  CHECK(table.find("big") != nullptr);  // alone above the limit
  CHECK(gauge.value() == 51);
}
