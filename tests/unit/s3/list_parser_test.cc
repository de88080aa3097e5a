#include "s3/list_parser.h"

#include <doctest/doctest.h>

#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

std::string page(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         inside + "</ListBucketResult>";
}

std::string contents(const std::string& key) {
  return "<Contents><Key>" + key + "</Key><Size>1</Size><ETag>&quot;e&quot;</ETag></Contents>";
}

std::vector<std::string> keys(const std::string& xml) {
  const auto parsed = parse_list_page(xml);
  REQUIRE(parsed.has_value());
  std::vector<std::string> out;
  for (const auto& object : parsed->objects) out.push_back(object.key);
  return out;
}

TEST_CASE("a page with all there is") {
  const auto parsed = parse_list_page(
      page("<Name>b</Name><Prefix>p%2F</Prefix><KeyCount>2</KeyCount><EncodingType>url</EncodingType>"
           "<IsTruncated>true</IsTruncated><NextContinuationToken>1/+=tok</NextContinuationToken>"
           "<Contents><Key>p/a</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"
           "<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>4294967297</Size>"
           "<StorageClass>STANDARD</StorageClass></Contents>"
           "<Contents><Key>p/cold</Key><Size>5</Size><StorageClass>DEEP_ARCHIVE</StorageClass></Contents>"
           "<CommonPrefixes><Prefix>p/sub/</Prefix></CommonPrefixes>"
           "<CommonPrefixes><Prefix>p/t+u%2Bv/</Prefix></CommonPrefixes>"));
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->objects.size() == 2);
  const auto& first = parsed->objects[0];
  CHECK(first.key == "p/a");
  CHECK(first.size_bytes == 4294967297u);
  CHECK(first.etag == "\"fba9dede5f27731c9771645a39863328\"");
  CHECK(first.last_modified == parse_http_time("Mon, 12 Oct 2009 17:50:30 GMT"));
  CHECK(first.storage_class.empty());
  CHECK_FALSE(first.archived);
  CHECK(parsed->objects[1].storage_class == "DEEP_ARCHIVE");
  CHECK(parsed->objects[1].archived);
  CHECK(parsed->prefixes == std::vector<std::string>{"p/sub/", "p/t u+v/"});
  CHECK(parsed->truncated);
  CHECK(parsed->next_token == "1/+=tok");
  CHECK_FALSE(parsed->version_1);
  CHECK(parsed->last_name() == "p/t u+v/");
}

TEST_CASE("keys are decoded only where the store says that it encoded them") {
  CHECK(keys(page("<EncodingType>url</EncodingType>" + contents("a+b%2Bc%01%C3%BC"))) ==
        std::vector<std::string>{"a b+c\x01\xc3\xbc"});
  CHECK(keys(page(contents("a+b%2Bc"))) == std::vector<std::string>{"a+b%2Bc"});
}

TEST_CASE("odd keys of a store that does not encode") {
  CHECK(keys(page(contents("a&amp;b&lt;c&gt;") + contents("X&#x1;Y") + contents("X&#x2;Y") + contents(" ") +
                  contents(" lead and trail ") + contents("cr&#13;lf&#10;") + contents("<![CDATA[a<b]]>") +
                  contents("exp//a/./../x"))) == std::vector<std::string>{"a&b<c>", "X\x01Y", "X\x02Y", " ",
                                                                          " lead and trail ", "cr\rlf\n", "a<b",
                                                                          "exp//a/./../x"});
}

TEST_CASE("an empty page") {
  const auto parsed = parse_list_page(page("<KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>"));
  REQUIRE(parsed.has_value());
  CHECK(parsed->objects.empty());
  CHECK_FALSE(parsed->truncated);
  CHECK(parsed->last_name().empty());
}

TEST_CASE("a store that answers in version 1") {
  const auto parsed = parse_list_page(page(
      "<Marker></Marker><NextMarker>b</NextMarker><IsTruncated>true</IsTruncated>" + contents("a") + contents("b")));
  REQUIRE(parsed.has_value());
  CHECK(parsed->version_1);
  CHECK(parsed->next_marker == "b");
}

TEST_CASE("what is no page is refused") {
  for (const std::string& bad : {std::string("<html><body>Sign in</body></html>"), std::string(""), std::string("{}"),
                                 std::string("<Error><Code>SlowDown</Code></Error>"), page("").substr(0, 90),
                                 page("<Contents><Size>1</Size></Contents>"), page("<Contents><Key>k</Key></Contents>"),
                                 page("<Contents><Key>k</Key><Size>-1</Size></Contents>")}) {
    CAPTURE(bad);
    const auto parsed = parse_list_page(bad);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == base::Code::kIntegrity);
  }
}

}  // namespace
}  // namespace shardfs::s3
