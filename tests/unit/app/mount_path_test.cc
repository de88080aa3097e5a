#include "app/mount_path.h"

#include <doctest/doctest.h>

#include <utility>

namespace shardfs::app {

TEST_CASE("hint: paths relative to the mount and absolute ones below it") {
  const std::pair<const char*, const char*> cases[] = {
      {"a.tar", "a.tar"},
      {"train/a.tar", "train/a.tar"},
      {"./train//a.tar", "train/a.tar"},
      {"/mnt/data/train/a.tar", "train/a.tar"},
      {"/mnt/data//a.tar", "a.tar"},
      {"with space/\xc3\xbc.tar", "with space/\xc3\xbc.tar"},
      {"...", "..."},
      {"a..tar", "a..tar"},
      // Not below the mount, or nothing.
      {"/mnt/database/a.tar", ""},
      {"/mnt/a.tar", ""},
      {"/a.tar", ""},
      {"/mnt/data", ""},
      {"/mnt/data/", ""},
      {"../a.tar", ""},
      {"train/../a.tar", ""},
      {"train/..", ""},
      {"/mnt/data/../data/a.tar", ""},
      {"", ""},
      {".", ""},
      {"/", ""},
  };
  for (const auto& pair : cases) {
    CAPTURE(pair.first);
    CHECK(path_below("/mnt/data", pair.first) == pair.second);
  }
}

}  // namespace shardfs::app
