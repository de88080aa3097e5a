#include "tree/lister.h"

#include <doctest/doctest.h>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;

namespace {

PageNames page_of(std::vector<std::string> keys, std::vector<std::string> prefixes = {}) {
  store::ListPage page;
  for (auto& key : keys) page.objects.push_back(store::ObjectInfo{std::move(key), 5, "\"e\""});
  page.prefixes = std::move(prefixes);
  return names_of_page("", std::move(page));
}

Texts texts(std::vector<ListedName> names) {
  Texts out;
  for (const auto& name : names) out.push_back(name.name + (name.kind == Kind::kDirectory ? "/" : ""));
  return out;
}

}  // namespace

TEST_CASE("pages in order and out of order become one sorted run") {
  Lister lister("", {}, 1);
  CHECK(*lister.add(page_of({"d", "e"}), true, "1"));
  CHECK(*lister.add(page_of({"a", "f"}), true, "2"));
  CHECK(*lister.add(page_of({"b", "e"}, {"d/"}), true, "3"));
  CHECK_FALSE(*lister.add(page_of({"c"}), false, ""));
  CHECK(lister.raw_count() == 8);
  CHECK(texts(lister.take()) == Texts{"a", "b", "c", "d/", "e", "f"});
}

TEST_CASE("a file is sure only when no later page can make it a directory") {
  Lister lister("", {}, 1);
  CHECK(*lister.add(page_of({"a", "data", "data-1"}, {"b/"}), true, "1"));
  CHECK(lister.find("a") != nullptr);
  CHECK(lister.find("b") != nullptr);  // directories stay directories
  CHECK(lister.find("data") == nullptr);
  CHECK(lister.find("data-1") == nullptr);
  CHECK_FALSE(*lister.add(page_of({"data-2"}, {"data/"}), false, ""));
  CHECK(lister.find("data")->kind == Kind::kDirectory);
  CHECK(lister.find("data-1")->kind == Kind::kFile);
  CHECK(lister.find("nothing") == nullptr);
}

TEST_CASE("a token that comes twice, or none, ends the listing with an error") {
  Lister repeats("", {}, 1);
  CHECK(*repeats.add(page_of({"a"}), true, "t"));
  CHECK(code_of(repeats.add(page_of({"b"}), true, "t")) == base::Code::kIntegrity);
  CHECK(repeats.find("a") != nullptr);
  Lister none("", {}, 1);
  CHECK(code_of(none.add(page_of({"a"}), true, "")) == base::Code::kIntegrity);
}

TEST_CASE("the same page under ever new tokens ends with an error") {
  Lister lister("", {}, 1);
  base::Result<bool> more = true;
  unsigned pages = 0;
  for (; more && *more && pages < 1000; ++pages) more = lister.add(page_of({"a", "b"}), true, std::to_string(pages));
  CHECK(code_of(more) == base::Code::kIntegrity);
  CHECK(pages == Lister::kIdlePagesLimit + 1);
}

TEST_CASE("some empty pages and repeated prefixes are no error") {
  Lister lister("", {}, 1);
  CHECK(*lister.add(page_of({}, {"a/"}), true, "1"));
  for (int i = 2; i < 50; ++i) CHECK(*lister.add(page_of({}, {"a/"}), true, std::to_string(i)));
  CHECK(*lister.add(page_of({}), true, "50"));
  CHECK_FALSE(*lister.add(page_of({"b"}), false, ""));
  CHECK(texts(lister.take()) == Texts{"a/", "b"});
}
