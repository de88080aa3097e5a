#include "base/replace_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../temporary_folder.h"

namespace shardfs::base {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_CASE("a file gets new contents and the mode that is asked for, and nothing is left beside it") {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  const mode_t before = ::umask(077);
  CHECK(replace_file(path, "first, and longer", 0644));
  ::umask(before);
  CHECK(replace_file(path, "second", 0644));
  CHECK(contents(path) == "second");
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 07777) == 0644);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("what can't be replaced stays, and nothing is left beside it") {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "place");
  const auto refused = replace_file(folder / "place", "text", 0600);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().sys_errno == EISDIR);
  CHECK(files_in(folder.path()) == 1);
  const auto nowhere = replace_file(folder / "none/file", "text", 0600);
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().sys_errno == ENOENT);
}

}  // namespace
}  // namespace shardfs::base
