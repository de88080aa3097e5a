#include "app/manifest.h"

#include <doctest/doctest.h>

#include <string>

namespace shardfs::app {
namespace {

std::string texts(std::string_view manifest) {
  const auto objects = parse_manifest(manifest, "bucket");
  if (!objects) return objects.error().message;
  std::string out;
  for (const auto& object : *objects) out += object.key + "=" + std::to_string(object.size_bytes) + object.etag + " ";
  return out;
}

TEST_CASE("CSV: with and without a header, quoted, in any order of columns") {
  const std::string wanted = "a b=1\"x\" c,\"d=20\"y\" ";
  CHECK(texts("\"c,\"\"d\",20,y\na b,1,x\n") == wanted);
  CHECK(texts("ETag,Key,Owner,Size\r\n\"\"\"x\"\"\",a b,me,1\r\n\r\ny,\"c,\"\"d\",me,20") == wanted);
  CHECK(texts("\xef\xbb\xbfkey,size,etag\ns3://bucket/k,3,W/\"w\"\n") == "k=3W/\"w\" ");
  CHECK(texts("").empty());
}

TEST_CASE("JSON lines") {
  CHECK(
      texts(
          "{\"Key\": \"b\", \"Size\": 2, \"ETag\": \"\\\"x\\\"\"}\n\n{\"etag\":\"y\",\"size\":\"1\",\"key\":\"a\"}") ==
      "a=1\"y\" b=2\"x\" ");
}

TEST_CASE("what makes no sense in a manifest is named with its line") {
  CHECK(texts("a,1,x\nb,two,y\n") == "line 2: b: \"two\" is no size");
  CHECK(texts("a,1\n") == "line 1: a: there is no ETag");
  CHECK(texts("a,-1,x\n") == "line 1: a: \"-1\" is no size");
  CHECK(texts(",1,x\n") == "line 1: there is no key");
  CHECK(texts("s3://other/a,1,x\n") == "line 1: s3://other/a is in another bucket");
  CHECK(texts("a,1,x\nb,1,x\na,2,y\n") == "a is listed twice");
  CHECK(texts("{\"key\": \"a\"}\n") == "line 1: a: \"\" is no size");
  CHECK(texts("{\"key\": \"a\", \"size\": 1, \"etag\": \"x\"}\n[]\n") == "line 2: it is no JSON object");
  CHECK(read_manifest("/absent.csv", "b").error().message ==
        "read the manifest /absent.csv: No such file or directory");
}

}  // namespace
}  // namespace shardfs::app
