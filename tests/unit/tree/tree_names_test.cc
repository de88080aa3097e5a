// Keys that can't be file names, and names that are key and prefix, as a mount sees them.
#include <doctest/doctest.h>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;

TEST_CASE("odd keys are left out and their siblings stay") {
  Fixture at;
  at.store.put("exp2//a/x");
  at.store.put("/lead");
  at.store.put("exp2/good");
  at.store.put("exp2/./x");
  at.store.put("exp2/../x");
  at.store.put("exp2/" + std::string(256, 'l'));
  at.store.put("plain");
  CHECK(at.names(kRootNode) == Texts{"exp2/", "plain"});
  const auto exp2 = at.look(kRootNode, "exp2");
  REQUIRE(exp2);
  CHECK(at.names(exp2->id) == Texts{"good"});
  CHECK(at.count("tree_odd_keys") == 5);
  CHECK(at.look(exp2->id, "good")->info.key == "exp2/good");
  CHECK(code_of(at.look(exp2->id, "..")) == base::Code::kNotFound);
  CHECK(code_of(at.look(exp2->id, "")) == base::Code::kNotFound);
}

TEST_CASE("a name that is too long says so, without a request") {
  Fixture at;
  CHECK(code_of(at.look(kRootNode, std::string(256, 'l'))) == base::Code::kNameTooLong);
  CHECK(at.store.calls().empty());
  CHECK(code_of(at.look(kRootNode, std::string(255, 'l'))) == base::Code::kNotFound);
  CHECK(at.store.calls().size() == 2);
}

TEST_CASE("a key that is too long for any store says so") {
  TreeOptions options;
  options.prefix = std::string(200, 'a') + "/" + std::string(200, 'b') + "/" + std::string(200, 'c') + "/" +
                   std::string(200, 'd') + "/";
  Fixture at(options);
  CHECK(code_of(at.look(kRootNode, std::string(250, 'l'))) == base::Code::kNameTooLong);
  CHECK(at.store.calls().empty());
}

TEST_CASE("key and prefix of one name are one directory, in listings and lookups") {
  for (const bool unordered : {false, true}) {
    for (const uint32_t page_limit : {1u, 1000u}) {
      Fixture at;
      at.store.unordered = unordered;
      at.store.page_limit = page_limit;
      at.store.put("out");
      at.store.put("out-1");
      at.store.put("out/shadow_file.txt");
      at.store.put("zero");
      const auto direct = at.look(kRootNode, "out");
      REQUIRE(direct);
      CHECK(direct->kind == Kind::kDirectory);
      CHECK(at.names(kRootNode) == Texts{"out/", "out-1", "zero"});
      const auto listed = at.look(kRootNode, "out");
      CHECK(listed->kind == Kind::kDirectory);
      CHECK(listed->id == direct->id);
      CHECK(at.names(listed->id) == Texts{"shadow_file.txt"});
      CHECK(at.look(listed->id, "shadow_file.txt")->kind == Kind::kFile);
    }
  }
}

TEST_CASE("folder markers make directories and no entries") {
  Fixture at;
  at.store.put("train/", 0);
  at.store.put("train/a.tar");
  at.store.put("empty/", 0);
  at.store.put("filled/", 10);
  CHECK(at.names(kRootNode) == Texts{"empty/", "filled/", "train/"});
  CHECK(at.names(at.look(kRootNode, "train")->id) == Texts{"a.tar"});
  CHECK(at.names(at.look(kRootNode, "empty")->id) == Texts{});
  CHECK(at.names(at.look(kRootNode, "filled")->id) == Texts{});
  CHECK(at.count("tree_odd_keys") == 0);
}

TEST_CASE("a marker of the mounted prefix itself is no entry") {
  TreeOptions options;
  options.prefix = "data/set/";
  Fixture at(options);
  at.store.put("data/set/", 0);
  at.store.put("data/set/x");
  at.store.put("data/other");
  CHECK(at.names(kRootNode) == Texts{"x"});
  CHECK(at.look(kRootNode, "x")->info.key == "data/set/x");
  CHECK(code_of(at.look(kRootNode, "other")) == base::Code::kNotFound);
}

TEST_CASE("control characters and any bytes are names like others") {
  Fixture at;
  const Texts keys{"100%", "X\x01Y", "X\x02Y", "plus+plus", "q?x", "with space", "\xff\xfe"};
  for (const auto& key : keys) at.store.put(key);
  CHECK(at.names(kRootNode) == keys);
  for (const auto& key : keys) CHECK(at.look(kRootNode, key)->info.key == key);
}

TEST_CASE("an unordered store lists in order") {
  Fixture at;
  at.store.unordered = true;
  at.store.page_limit = 7;
  Texts expected;
  for (int i = 100; i < 150; ++i) {
    at.store.put("f" + std::to_string(i));
    expected.push_back("f" + std::to_string(i));
  }
  CHECK(at.names(kRootNode) == expected);
}
