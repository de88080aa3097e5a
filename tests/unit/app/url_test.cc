#include "app/url.h"

#include <doctest/doctest.h>

#include <string>

namespace shardfs::app {
namespace {

TEST_CASE("a bucket with and without a prefix") {
  struct Case {
    const char *text, *bucket, *prefix, *shown;
  };
  for (const Case& c : {Case{"s3://bucket", "bucket", "", "s3://bucket"},
                        {"s3://bucket/", "bucket", "", "s3://bucket"},
                        {"s3://bucket/a", "bucket", "a/", "s3://bucket/a"},
                        {"s3://my.data-set/a/b/", "my.data-set", "a/b/", "s3://my.data-set/a/b"},
                        {"s3://bucket/a b/ü%20", "bucket", "a b/ü%20/", "s3://bucket/a b/ü%20"},
                        {"s3://Old_Bucket/x", "Old_Bucket", "x/", "s3://Old_Bucket/x"}}) {
    const auto url = parse_url(c.text);
    REQUIRE_MESSAGE(url.has_value(), c.text);
    CHECK(url->bucket == c.bucket);
    CHECK(url->prefix == c.prefix);
    CHECK(url->text() == c.shown);
  }
}

TEST_CASE("what is not an address of a bucket is refused, naming it") {
  for (const std::string text :
       {"", "bucket", "s3:/bucket", "s3://", "s3:///key", "S3://bucket", "https://bucket/x", "s3://ab",
        "s3://buc ket/x", "s3://-bucket", "s3://bucket//a", "s3://bucket/a//b", "s3://b?x=1"}) {
    const auto url = parse_url(text);
    REQUIRE_FALSE_MESSAGE(url.has_value(), text);
    CHECK(url.error().code == base::Code::kInvalid);
    CHECK(url.error().message.find("\"" + text + "\"") == 0);
    CHECK(url.error().message.find("s3://BUCKET") != std::string::npos);
  }
  CHECK_FALSE(parse_url("s3://" + std::string(256, 'a')).has_value());
  CHECK_FALSE(parse_url("s3://bucket/" + std::string(1024, 'a')).has_value());
}

}  // namespace
}  // namespace shardfs::app
