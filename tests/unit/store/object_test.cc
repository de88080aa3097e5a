#include "store/object.h"

#include <doctest/doctest.h>

using namespace shardfs::store;

TEST_CASE("ETags are compared without quotes and weakness, never parsed") {
  CHECK(same_etag("\"abc-2\"", "abc-2"));
  CHECK(same_etag("W/\"abc\"", "\"abc\""));
  CHECK_FALSE(same_etag("\"abc\"", "\"abd\""));
}

TEST_CASE("a version is the ETag, else size and Last-Modified") {
  ObjectInfo a{"k", 10, "\"e1\"", {}, "", false};
  ObjectInfo b = a;
  CHECK(same_version(a, b));
  b.etag = "\"e2\"";
  CHECK_FALSE(same_version(a, b));
  CHECK(version_of(a) == "e1");
  a.etag.clear();
  b.etag.clear();
  CHECK(same_version(a, b));
  b.last_modified += std::chrono::seconds(1);
  CHECK_FALSE(same_version(a, b));
  CHECK(version_of(a) != version_of(b));
  b = a;
  b.size_bytes = 11;
  CHECK_FALSE(same_version(a, b));
  CHECK(version_of(a) != version_of(b));
}
