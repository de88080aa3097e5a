// Whose folder it is.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cache/naming.h"
#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

TEST_CASE("a folder is made with its marker and mode 0700") {
  const TestFolder folder;
  TestCache cache(folder);
  REQUIRE(cache.cache);
  struct ::stat answer;
  REQUIRE(::stat(folder.cache().c_str(), &answer) == 0);
  CHECK((answer.st_mode & 0777) == 0700);
  std::ifstream marker(folder.cache() + "/SHARDFS");
  std::string line;
  std::getline(marker, line);
  CHECK(line == "shardfs cache folder");
  std::getline(marker, line);
  CHECK(line == "format 1");
}

TEST_CASE("an empty folder is taken, also the root of a file system of its own") {
  const TestFolder folder;
  std::filesystem::create_directories(folder.cache() + "/lost+found");
  ::chmod(folder.cache().c_str(), 0755);
  TestCache cache(folder);
  REQUIRE(cache.cache);
  struct ::stat answer;
  REQUIRE(::stat(folder.cache().c_str(), &answer) == 0);
  CHECK((answer.st_mode & 0777) == 0700);
}

TEST_CASE("refused: foreign files, a newer format, a marker that is not ours, nonsense sizes and names") {
  const TestFolder folder;
  std::filesystem::create_directories(folder.cache());
  const auto code_of = [](TestCache& cache) {
    cache.close();
    const auto opened = cache.open();
    if (!opened) MESSAGE(opened.error().message);
    return opened ? base::Code::kIo : opened.error().code;
  };
  SUBCASE("foreign files") {
    std::ofstream(folder.cache() + "/thesis.tex") << "x";
    TestCache cache(folder);
    CHECK(code_of(cache) == base::Code::kInvalid);
    CHECK(std::filesystem::exists(folder.cache() + "/thesis.tex"));
    CHECK_FALSE(std::filesystem::exists(folder.cache() + "/SHARDFS"));
  }
  SUBCASE("newer") {
    std::ofstream(folder.cache() + "/SHARDFS") << "shardfs cache folder\nformat 2\n";
    TestCache cache(folder);
    CHECK(code_of(cache) == base::Code::kInvalid);
  }
  SUBCASE("not a marker") {
    std::ofstream(folder.cache() + "/SHARDFS") << "hello";
    TestCache cache(folder);
    CHECK(code_of(cache) == base::Code::kInvalid);
  }
  SUBCASE("sizes") {
    TestCache cache(folder, 1000);
    CHECK(code_of(cache) == base::Code::kInvalid);
    cache.options.limit.bytes = 64 * kMiB;
    cache.options.min_free.percent = 100;
    CHECK(code_of(cache) == base::Code::kInvalid);
  }
  SUBCASE("names") {
    TestCache cache(folder);
    cache.options.trust_namespace = "../up";
    CHECK(code_of(cache) == base::Code::kInvalid);
    cache.options.trust_namespace = "site";
    cache.options.folder = "relative";
    CHECK(code_of(cache) == base::Code::kInvalid);
  }
  SUBCASE("foreign owner") {
    if (::geteuid() == 0) {
      REQUIRE(::chown(folder.cache().c_str(), 12345, 12345) == 0);
      TestCache cache(folder);
      CHECK(code_of(cache) == base::Code::kInvalid);
    }
  }
  SUBCASE("a file in its place") {
    std::filesystem::remove(folder.cache());
    std::ofstream(folder.cache()) << "x";
    TestCache cache(folder);
    CHECK(code_of(cache) == base::Code::kCacheIo);
  }
}

TEST_CASE("names of cache files and nothing else are recognised") {
  const ObjectHash hash = hash_of(object("k"), 10);
  CHECK(hash.high == hash_of(object("k"), 11).high);
  CHECK(hash.low != hash_of(object("k"), 11).low);
  CHECK(hash.high != hash_of(object("k", "v2"), 10).high);
  // Parts don't run into one another.
  CHECK(hash_of({"e", "ab", "c", "v"}, 1) != hash_of({"e", "a", "bc", "v"}, 1));
  for (const auto kind : {FileKind::kData, FileKind::kMap, FileKind::kUnfinishedMap}) {
    const auto name = parse_file_name(to_string(FileName{hash, kind}));
    REQUIRE(name);
    CHECK(name->hash == hash);
    CHECK(name->kind == kind);
  }
  for (const char* name : {"", "x.data", "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff.dat",
                           "00112233445566778899AABBCCDDEEFF.data", "00112233445566778899aabbccddeef.data"}) {
    CHECK_FALSE(parse_file_name(name));
  }
}
