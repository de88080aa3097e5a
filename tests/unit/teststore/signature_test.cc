#include "teststore/signature.h"

#include <doctest/doctest.h>

namespace shardfs::teststore {
namespace {

constexpr char kEmptyHash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const Credentials kCredentials = {{"AKIAIOSFODNN7EXAMPLE", {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""}}};

WallTime example_time() { return *parse_amz_date("20130524T000000Z"); }

Request example(std::string method, std::string path, std::string query, std::string signed_headers,
                std::string signature, Headers extra = {}) {
  Request request;
  request.method = std::move(method);
  request.raw_path = std::move(path);
  request.raw_query = std::move(query);
  request.headers = {{"Host", "examplebucket.s3.amazonaws.com"},
                     {"x-amz-date", "20130524T000000Z"},
                     {"Authorization",
                      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                      "SignedHeaders=" +
                          signed_headers + ",Signature=" + signature}};
  for (auto& header : extra) request.headers.push_back(std::move(header));
  if (!request.header("x-amz-content-sha256")) request.headers.emplace_back("x-amz-content-sha256", kEmptyHash);
  address_request(request);
  return request;
}

// Source: the worked examples in "Signature Calculations for the Authorization Header" of the S3 documentation.
Request get_example() {
  return example("GET", "/test.txt", "", "host;range;x-amz-content-sha256;x-amz-date",
                 "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", {{"Range", "bytes=0-9"}});
}

Request put_example() {
  Request request =
      example("PUT", "/test%24file.text", "", "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
              {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
               {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
               {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}});
  request.body = "Welcome to Amazon S3.";
  return request;
}

std::string refusal(const Request& request, const SignaturePolicy& policy = {}, WallTime now = example_time(),
                    const Credentials& credentials = kCredentials) {
  const auto reply = check_signature(request, credentials, policy, now);
  if (!reply) return "";
  const size_t at = reply->text.find("<Code>") + 6;
  return std::to_string(reply->status) + " " + reply->text.substr(at, reply->text.find("</Code>") - at);
}

std::string& header(Request& request, std::string_view name) {
  for (auto& [header, value] : request.headers) {
    if (header == name) return value;
  }
  FAIL("no such header");
  return request.body;
}

TEST_CASE("the documentation's examples are accepted") {
  CHECK(refusal(get_example()) == "");
  CHECK(refusal(put_example()) == "");
  CHECK(refusal(example("GET", "/", "lifecycle", "host;x-amz-content-sha256;x-amz-date",
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")) == "");
  CHECK(refusal(example("GET", "/", "max-keys=2&prefix=J", "host;x-amz-content-sha256;x-amz-date",
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")) == "");
}

TEST_CASE("parameters in another order and needless encodings sign the same") {
  CHECK(refusal(example("GET", "/", "prefix=%4A&max-keys=2", "host;x-amz-content-sha256;x-amz-date",
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")) == "");
}

TEST_CASE("whatever is signed may not change") {
  const std::string wrong = "403 SignatureDoesNotMatch";
  Request request = get_example();
  request.method = "HEAD";
  CHECK(refusal(request) == wrong);
  request = get_example();
  request.raw_path = "/test.txt/";
  CHECK(refusal(request) == wrong);
  request = get_example();
  header(request, "Range") = "bytes=0-8";
  CHECK(refusal(request) == wrong);
  request = get_example();
  header(request, "Host") = "other.s3.amazonaws.com";
  CHECK(refusal(request) == wrong);
  request = get_example();
  header(request, "Authorization").back() = '2';
  CHECK(refusal(request) == wrong);
  const Credentials other = {{"AKIAIOSFODNN7EXAMPLE", {"another", ""}}};
  CHECK(refusal(get_example(), {}, example_time(), other) == wrong);
}

TEST_CASE("each other refusal has its own code") {
  CHECK(refusal(get_example(), {}, example_time(), {}) == "403 InvalidAccessKeyId");
  CHECK(refusal(get_example(), {}, example_time() + std::chrono::minutes(16)) == "403 RequestTimeTooSkewed");
  CHECK(refusal(get_example(), {}, example_time() - std::chrono::minutes(16)) == "403 RequestTimeTooSkewed");
  CHECK(refusal(get_example(), {}, example_time() + std::chrono::minutes(14)) == "");
  CHECK(refusal(get_example(), {true, "eu-west-1"}) == "400 AuthorizationHeaderMalformed");

  Request request = get_example();
  request.headers.emplace_back("x-amz-meta-unsigned", "1");
  CHECK(refusal(request) == "403 AccessDenied");
  request = put_example();
  request.body = "Welcome to Amazon S4.";
  CHECK(refusal(request) == "400 XAmzContentSHA256Mismatch");

  Request unsigned_request = get_example();
  std::erase_if(unsigned_request.headers, [](const auto& one) { return one.first == "Authorization"; });
  CHECK(refusal(unsigned_request) == "403 AccessDenied");
  CHECK(refusal(unsigned_request, {false, "us-east-1"}) == "");
  Request forged = get_example();
  header(forged, "Authorization").back() = '2';
  CHECK(refusal(forged, {false, "us-east-1"}) == "403 SignatureDoesNotMatch");
  header(forged, "Authorization") = "Basic dXNlcjpwYXNz";
  CHECK(refusal(forged) == "400 AuthorizationHeaderMalformed");
}

TEST_CASE("a key with a session token wants that token") {
  const Credentials with_token = {{"AKIAIOSFODNN7EXAMPLE", {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "token"}}};
  CHECK(refusal(get_example(), {}, example_time(), with_token) == "400 InvalidToken");
}

}  // namespace
}  // namespace shardfs::teststore
