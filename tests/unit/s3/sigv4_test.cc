// Against what AWS publishes: the examples of "Signature Calculations for the Authorization Header" in the S3 API
// reference, and cases of the general SigV4 test suite.
#include "s3/sigv4.h"

#include <doctest/doctest.h>

#include "s3/timestamps.h"
#include "s3/uri.h"

namespace shardfs::s3 {
namespace {

std::string signature_of(const std::string& header) { return header.substr(header.find("Signature=") + 10); }

std::string s3_example(std::string_view path, std::string_view query,
                       std::vector<std::pair<std::string, std::string>> extra = {}) {
  SignedParts parts;
  parts.method = "GET";
  parts.path = path;
  parts.query = query;
  parts.headers = {{"x-amz-date", "20130524T000000Z"},
                   {"host", "examplebucket.s3.amazonaws.com"},
                   {"x-amz-content-sha256", std::string(kEmptySha256)}};
  parts.headers.insert(parts.headers.end(), extra.begin(), extra.end());
  return authorization(
      {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "s3", "20130524T000000Z"},
      parts);
}

std::string suite_case(std::string_view path, std::string_view query,
                       std::vector<std::pair<std::string, std::string>> extra = {}) {
  SignedParts parts;
  parts.method = "GET";
  parts.path = path;
  parts.query = query;
  parts.headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
  parts.headers.insert(parts.headers.end(), extra.begin(), extra.end());
  return signature_of(authorization(
      {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "service", "20150830T123600Z"}, parts));
}

TEST_CASE("S3's example of a ranged GET") {
  CHECK(s3_example("/test.txt", "", {{"range", "bytes=0-9"}}) ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_CASE("S3's example of a query parameter without a value") {
  CHECK(signature_of(s3_example("/", canonical_query({{"lifecycle", ""}}))) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST_CASE("S3's example of a listing") {
  CHECK(signature_of(s3_example("/", canonical_query({{"prefix", "J"}, {"max-keys", "2"}}))) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("cases of the general suite") {
  CHECK(suite_case("/", "") == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  CHECK(suite_case("/", canonical_query({{"Param2", "value2"}, {"Param1", "value1"}})) ==
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  CHECK(suite_case("/" + percent_encode("\xe1\x88\xb4", true), "") ==
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  const std::string unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  CHECK(suite_case("/" + percent_encode(unreserved, true), "") ==
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
}

TEST_CASE("header values are trimmed and their blanks are one") {
  SignedParts parts;
  parts.method = "GET";
  parts.path = "/";
  parts.headers = {{"b", "  x \t y  "}, {"a", "1"}};
  CHECK(canonical_request(parts) == "GET\n/\n\na:1\nb:x y\n\na;b\n" + std::string(kEmptySha256));
}

TEST_CASE("the three ways to write a time") {
  const auto time = parse_http_time("Mon, 12 Oct 2009 17:50:30 GMT");
  REQUIRE(time.has_value());
  CHECK(parse_iso_time("2009-10-12T17:50:30.000Z") == time);
  CHECK(parse_iso_time("2009-10-12T17:50:30.987Z") == time);
  CHECK(parse_iso_time("2009-10-12T17:50:30Z") == time);
  CHECK(format_amz_date(*time) == "20091012T175030Z");
  CHECK_FALSE(parse_iso_time("2009-13-12T17:50:30Z").has_value());
  CHECK_FALSE(parse_iso_time("yesterday").has_value());
  CHECK_FALSE(parse_http_time("").has_value());
}

}  // namespace
}  // namespace shardfs::s3
