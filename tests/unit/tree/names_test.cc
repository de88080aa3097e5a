#include "tree/names.h"

#include <doctest/doctest.h>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;

namespace {

store::ListPage page_of(std::vector<std::string> keys, std::vector<std::string> prefixes = {}) {
  store::ListPage page;
  for (auto& key : keys) page.objects.push_back(store::ObjectInfo{std::move(key), 5, "\"e\""});
  page.prefixes = std::move(prefixes);
  return page;
}

Texts texts(const PageNames& page) {
  Texts out;
  for (const auto& name : page.names) out.push_back(name.name + (name.kind == Kind::kDirectory ? "/" : ""));
  return out;
}

}  // namespace

TEST_CASE("parts that can't be file names") {
  CHECK(check_part("a.tar") == PartKind::kGood);
  CHECK(check_part("...") == PartKind::kGood);
  CHECK(check_part(std::string(255, 'x')) == PartKind::kGood);
  CHECK(check_part("") == PartKind::kEmpty);
  CHECK(check_part(".") == PartKind::kDots);
  CHECK(check_part("..") == PartKind::kDots);
  CHECK(check_part(std::string(256, 'x')) == PartKind::kTooLong);
  std::string three_byte_characters;
  for (int i = 0; i < 86; ++i) three_byte_characters += "\xe2\x82\xac";
  CHECK(check_part(three_byte_characters) == PartKind::kTooLong);
  CHECK(check_part(std::string_view("a\0b", 3)) == PartKind::kBadByte);
  CHECK(check_part("a/b") == PartKind::kBadByte);
}

TEST_CASE("a page becomes sorted names, each once") {
  const auto page = names_of_page("d/", page_of({"d/", "d/b", "d/a.tar", "d/a", "d/b"}, {"d/a/", "d/c/"}));
  CHECK(texts(page) == Texts{"a/", "a.tar", "b", "c/"});
  CHECK(page.raw == 7);
  CHECK(page.odd == 0);
  CHECK(page.last_key == "d/c/");
}

TEST_CASE("odd keys are left out and counted") {
  const std::string nul("d/z\0z", 5);
  const auto page = names_of_page(
      "d/", page_of({"d/.", "d/..", "d/ok", "d/" + std::string(256, 'n'), nul, "elsewhere"}, {"d//", "d/../"}));
  CHECK(texts(page) == Texts{"ok"});
  CHECK(page.odd == 7);
}

TEST_CASE("a store that ignores the delimiter still gives one level") {
  const auto page = names_of_page("", page_of({"a/1", "a/2", "b", "/lead"}));
  CHECK(texts(page) == Texts{"a/", "b"});
  CHECK(page.odd == 1);
}

TEST_CASE("bytes above 127 sort as bytes, after ASCII") {
  const auto page = names_of_page("", page_of({"\xc3\xbc", "z", "A", "a"}));
  CHECK(texts(page) == Texts{"A", "a", "z", "\xc3\xbc"});
}

TEST_CASE("inode numbers are the same for ever") {
  CHECK(stable_inode_number("train/a.tar", "etag-1") == stable_inode_number("train/a.tar", "etag-1"));
  CHECK(stable_inode_number("train/a.tar", "etag-1") != stable_inode_number("train/a.tar", "etag-2"));
  CHECK(stable_inode_number("train/a.tar", "") != stable_inode_number("train/b.tar", ""));
  CHECK(stable_inode_number("ab", "c") != stable_inode_number("a", "bc"));
  // Written down, so that a change of the hash shows: it would change st_ino over an upgrade.
  CHECK(stable_inode_number("a", "1") == 9618742305745393108u);
}

TEST_CASE("paths") {
  CHECK(join_path("", "a") == "a");
  CHECK(join_path("a/b", "c") == "a/b/c");
  CHECK(split_path("a/b/c") == std::pair<std::string_view, std::string_view>("a/b", "c"));
  CHECK(split_path("a") == std::pair<std::string_view, std::string_view>("", "a"));
}
