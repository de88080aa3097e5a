#include <doctest/doctest.h>

#include <cerrno>

#include "fakes.h"
#include "fs/errno_table.h"

using namespace shardfs;
using namespace shardfs::fs;
using base::Code;

TEST_CASE("each code has its errno") {
  const std::pair<Code, int> table[] = {
      {Code::kNotFound, ENOENT},
      {Code::kPermission, EACCES},
      {Code::kChanged, ESTALE},
      {Code::kIntegrity, EIO},
      {Code::kTransient, EIO},
      {Code::kTimeout, ETIMEDOUT},
      {Code::kCancelled, EINTR},
      {Code::kReadOnly, EROFS},
      {Code::kInvalid, EIO},
      {Code::kUnsupported, EOPNOTSUPP},
      {Code::kNameTooLong, ENAMETOOLONG},
      {Code::kNotDirectory, ENOTDIR},
      {Code::kIsDirectory, EISDIR},
      {Code::kNoAttribute, ENODATA},
      {Code::kNoMemory, ENOMEM},
      {Code::kCacheIo, EIO},
      {Code::kCacheFull, EIO},
      {Code::kIo, EIO},
  };
  for (const auto& [code, wanted] : table) CHECK(to_errno({code, "", 0}) == wanted);
}

TEST_CASE("errors of the tree and the fetcher reach the caller as errno, and are counted by name") {
  testing::World world;
  world.tree.lookup_error = base::Error{Code::kTimeout, "", 0};
  CHECK(world.lookup(1, "a").error == ETIMEDOUT);
  world.tree.lookup_error.reset();
  CHECK(world.lookup(1, "missing").error == ENOENT);
  CHECK(world.counter("fs_errors", "ENOENT") == 1);
  CHECK(world.counter("fs_errors", "ETIMEDOUT") == 1);

  world.tree.list_error = base::Error{Code::kPermission, "", 0};
  int error = 0;
  world.fs->opendir(1, [&](auto reply) { error = reply.error; });
  CHECK(error == EACCES);

  const auto opened = world.open(2);
  REQUIRE(opened.error == 0);
  world.source(2).read_error = base::Error{Code::kChanged, "", 0};
  CHECK(world.read(opened.value.handle, 0, 10).error == ESTALE);
  CHECK(world.read(12345, 0, 10).error == EBADF);
}

TEST_CASE("opens that can't be") {
  testing::World world;
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_RDONLY | O_CREAT}) {
    CHECK(world.open(2, flags).error == EROFS);
  }
  CHECK(world.open(4).error == EISDIR);
  world.tree.node(2).info.archived = true;
  CHECK(world.open(2).error == EACCES);
  world.tree.node(2).info.archived = false;
  for (const Code code : {Code::kChanged, Code::kNotFound}) {
    world.tree.getattr_error = base::Error{code, "", 0};
    CHECK(world.open(2).error == ESTALE);
  }
  world.tree.getattr_error = base::Error{Code::kTransient, "", 0};
  CHECK(world.open(2).error == EIO);
  world.tree.getattr_error.reset();
  CHECK(world.open(2).error == 0);
  CHECK(world.source(2).open_handles == 1);
}
