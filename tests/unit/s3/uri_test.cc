#include "s3/uri.h"

#include <doctest/doctest.h>

namespace shardfs::s3 {
namespace {

using base::Code;

Target target(std::string bucket, std::string_view endpoint, bool path_style = false, std::string region = "") {
  auto out = make_target(std::move(bucket), endpoint, std::move(region), path_style);
  REQUIRE(out.has_value());
  return *out;
}

TEST_CASE("every byte of a key is encoded once") {
  CHECK(percent_encode("a/b-c._~9", true) == "a/b-c._~9");
  CHECK(percent_encode("with space", true) == "with%20space");
  CHECK(percent_encode("with%20space", true) == "with%2520space");
  CHECK(percent_encode("plus+plus", true) == "plus%2Bplus");
  CHECK(percent_encode("at@x#?&=:", true) == "at%40x%23%3F%26%3D%3A");
  CHECK(percent_encode("100%", true) == "100%25");
  CHECK(percent_encode("\xc3\xbc", true) == "%C3%BC");
  CHECK(percent_encode("X\x01Y\x7f", true) == "X%01Y%7F");
  CHECK(percent_encode("a//b/./../c", true) == "a//b/./../c");
  CHECK(percent_encode("a/b", false) == "a%2Fb");
}

TEST_CASE("any bytes come back from their encoding") {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(percent_decode(percent_encode(all, true), true) == all);
  CHECK(percent_decode("a+b%2Bc", true) == "a b+c");
  CHECK(percent_decode("a+b%2bc", false) == "a+b+c");
  CHECK(percent_decode("100%", true) == "100%");
  CHECK(percent_decode("%zz%4", true) == "%zz%4");
  CHECK(percent_decode("%41%4", true) == "A%4");
}

TEST_CASE("endpoints") {
  CHECK(parse_endpoint("http://127.0.0.1:9000/")->text() == "http://127.0.0.1:9000");
  CHECK(parse_endpoint("https://S3.Example.COM:443")->text() == "https://s3.example.com");
  CHECK(parse_endpoint("http://[::1]:80/base/")->text() == "http://[::1]/base");
  CHECK(parse_endpoint("https://h:80")->text() == "https://h:80");
  for (const char* bad : {"", "127.0.0.1:9000", "ftp://x", "http://", "http://h:0", "http://h:99999", "http://h:9x",
                          "http://h/?q=1", "http://[::1", "http://h/a#b"}) {
    CAPTURE(bad);
    const auto parsed = parse_endpoint(bad);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == Code::kInvalid);
  }
}

TEST_CASE("a password in an endpoint is refused and not repeated") {
  const auto parsed = parse_endpoint("https://user:hunter2@h");
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().message.find("hunter2") == std::string::npos);
}

TEST_CASE("AWS by region, the bucket in the host name") {
  const auto t = target("my-bucket", "", false, "eu-west-1");
  CHECK(t.endpoint.text() == "https://s3.eu-west-1.amazonaws.com");
  CHECK(t.host() == "my-bucket.s3.eu-west-1.amazonaws.com");
  CHECK(t.url(t.path("a b/c"), "") == "https://my-bucket.s3.eu-west-1.amazonaws.com/a%20b/c");
  CHECK(t.path("") == "/");
  CHECK(target("b", "").region == "us-east-1");
  CHECK(target("b", "", false, "cn-north-1").endpoint.text() == "https://s3.cn-north-1.amazonaws.com.cn");
}

TEST_CASE("path style where the bucket can't be in the host name") {
  CHECK(target("bucket", "http://127.0.0.1:9000").path("k") == "/bucket/k");
  CHECK(target("bucket", "http://[::1]:9000").path_style);
  CHECK(target("bucket", "http://localhost:9000").path_style);
  CHECK(target("bucket", "http://minio:9000").path_style);
  CHECK(target("my.data.set", "").path("k") == "/my.data.set/k");
  CHECK(target("my.data.set", "").host() == "s3.us-east-1.amazonaws.com");
  CHECK(target("Upper_case", "").path_style);
  CHECK_FALSE(target("bucket", "https://store.example.com").path_style);
  const auto forced = target("bucket", "https://store.example.com:8443/s3/", true);
  CHECK(forced.host() == "store.example.com:8443");
  CHECK(forced.path("k") == "/s3/bucket/k");
  CHECK(forced.path("") == "/s3/bucket");
}

TEST_CASE("a key that begins with a slash keeps it") {
  CHECK(target("bucket", "https://store.example.com").path("/lead") == "//lead");
  CHECK(target("bucket", "http://127.0.0.1").path("//x") == "/bucket///x");
}

TEST_CASE("bucket names that are none") {
  for (const char* bad : {"", "a/b", "a b", "..", "a?b", "b\n"}) {
    CAPTURE(bad);
    CHECK(make_target(bad, "", "", false).error().code == Code::kInvalid);
  }
  CHECK(make_target("b", "", "eu/west", false).error().code == Code::kInvalid);
}

}  // namespace
}  // namespace shardfs::s3
