#include "s3/error_mapping.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace shardfs::s3 {
namespace {

using base::Code;

ResponseHead head(int status, std::initializer_list<const char*> headers = {}) {
  ResponseHead out;
  out.add_line(fmt::format("HTTP/1.1 {} Words\r\n", status));
  for (const char* line : headers) out.add_line(line);
  return out;
}

std::string body(std::string_view code) {
  return fmt::format("<Error><Code>{}</Code><Message>m</Message></Error>", code);
}

struct Expected {
  Code code;
  Remedy remedy;
};

void check(int status, std::string_view s3_code, Expected expected, AnswerContext context = {}) {
  CAPTURE(status);
  CAPTURE(s3_code);
  const auto verdict = judge_answer(head(status), s3_code.empty() ? "" : body(s3_code), context);
  CHECK(base::name_of(verdict.code) == base::name_of(expected.code));
  CHECK(static_cast<int>(verdict.remedy) == static_cast<int>(expected.remedy));
}

constexpr AnswerContext kSignedGet{RequestKind::kGet, false, true, "us-east-1", {}};
constexpr AnswerContext kSignedHead{RequestKind::kHead, false, true, "us-east-1", {}};
constexpr AnswerContext kIfMatch{RequestKind::kGet, true, true, "us-east-1", {}};
constexpr AnswerContext kList{RequestKind::kList, false, true, "us-east-1", {}};

TEST_CASE("only the store's own 404 is not found") {
  check(404, "NoSuchKey", {Code::kNotFound, Remedy::kNone});
  check(404, "NoSuchBucket", {Code::kNotFound, Remedy::kNone});
  check(404, "", {Code::kNotFound, Remedy::kNone}, kSignedHead);
}

TEST_CASE("what a wait may cure is transient") {
  for (const int status : {500, 502, 504, 408, 409, 520}) check(status, "", {Code::kTransient, Remedy::kRetry});
  check(400, "RequestTimeout", {Code::kTransient, Remedy::kRetry});
  check(500, "InternalError", {Code::kTransient, Remedy::kRetry});
  for (const int status : {503, 429, 509}) check(status, "", {Code::kTransient, Remedy::kRetrySlower});
  check(503, "SlowDown", {Code::kTransient, Remedy::kRetrySlower});
  check(400, "RequestLimitExceeded", {Code::kTransient, Remedy::kRetrySlower});
}

TEST_CASE("refusals are not retried") {
  check(403, "AccessDenied", {Code::kPermission, Remedy::kNone}, kSignedGet);
  check(403, "SignatureDoesNotMatch", {Code::kPermission, Remedy::kRenewIfDiffer}, kSignedGet);
  check(403, "InvalidObjectState", {Code::kPermission, Remedy::kNone}, kSignedGet);
  check(401, "", {Code::kPermission, Remedy::kNone});
  check(403, "", {Code::kPermission, Remedy::kNone});
}

TEST_CASE("keys that the store refuses are read again") {
  for (const char* code : {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken"}) {
    check(400, code, {Code::kPermission, Remedy::kRenewCredentials}, kSignedGet);
    check(403, code, {Code::kPermission, Remedy::kRenewCredentials}, kSignedGet);
  }
  check(403, "InvalidAccessKeyId", {Code::kPermission, Remedy::kNone});  // not signed: nothing to renew
  check(403, "", {Code::kPermission, Remedy::kRenewIfDiffer}, kSignedHead);
  check(400, "", {Code::kPermission, Remedy::kRenewIfDiffer}, kSignedHead);
}

TEST_CASE("a clock that is off") {
  check(403, "RequestTimeTooSkewed", {Code::kPermission, Remedy::kFixClock}, kSignedGet);
  AnswerContext context = kSignedHead;
  context.now = base::WallTime(std::chrono::seconds(1000000000));  // Sun, 09 Sep 2001 01:46:40 GMT
  const auto far = judge_answer(head(403, {"Date: Sun, 09 Sep 2001 03:46:40 GMT\r\n"}), "", context);
  CHECK(far.remedy == Remedy::kFixClock);
  const auto near = judge_answer(head(403, {"date: Sun, 09 Sep 2001 01:46:50 GMT\r\n"}), "", context);
  CHECK(near.remedy == Remedy::kRenewIfDiffer);
}

TEST_CASE("If-Match that a store may not understand") {
  check(412, "PreconditionFailed", {Code::kChanged, Remedy::kWithoutIfMatch}, kIfMatch);
  check(400, "InvalidArgument", {Code::kInvalid, Remedy::kWithoutIfMatch}, kIfMatch);
  check(501, "NotImplemented", {Code::kUnsupported, Remedy::kWithoutIfMatch}, kIfMatch);
  check(412, "PreconditionFailed", {Code::kChanged, Remedy::kNone}, kSignedGet);
  check(400, "ExpiredToken", {Code::kPermission, Remedy::kRenewCredentials}, kIfMatch);
}

TEST_CASE("a store without ListObjectsV2") {
  check(400, "InvalidArgument", {Code::kInvalid, Remedy::kListVersion1}, kList);
  check(501, "NotImplemented", {Code::kUnsupported, Remedy::kListVersion1}, kList);
  check(400, "InvalidBucketName", {Code::kInvalid, Remedy::kNone}, kList);
}

TEST_CASE("the wrong region is named, with the right one") {
  const auto by_header =
      judge_answer(head(301, {"x-amz-bucket-region: eu-west-1\r\n"}), body("PermanentRedirect"), kSignedGet);
  CHECK(by_header.code == Code::kInvalid);
  CHECK(by_header.remedy == Remedy::kSwitchRegion);
  CHECK(by_header.region == "eu-west-1");
  CHECK(by_header.detail.find("set the region to eu-west-1") != std::string::npos);
  const auto by_body = judge_answer(
      head(400), "<Error><Code>AuthorizationHeaderMalformed</Code><Region>ap-south-1</Region></Error>", kSignedGet);
  CHECK(by_body.region == "ap-south-1");
  const auto by_head = judge_answer(head(400, {"X-Amz-Bucket-Region: eu-west-1\r\n"}), "", kSignedHead);
  CHECK(by_head.region == "eu-west-1");
  const auto same = judge_answer(head(403, {"x-amz-bucket-region: us-east-1\r\n"}), body("AccessDenied"), kSignedGet);
  CHECK(same.code == Code::kPermission);
  const auto elsewhere = judge_answer(head(302, {"Location: http://login.example/?token=abc\r\n"}), "", kSignedGet);
  CHECK(elsewhere.code == Code::kInvalid);
  CHECK(elsewhere.detail.find("http://login.example/") != std::string::npos);
  CHECK(elsewhere.detail.find("abc") == std::string::npos);
}

TEST_CASE("Retry-After as seconds and as a date") {
  AnswerContext context = kSignedGet;
  context.now = base::WallTime(std::chrono::seconds(1000000000));
  CHECK(judge_answer(head(503, {"retry-after: 7\r\n"}), "", context).retry_after == std::chrono::seconds(7));
  CHECK(judge_answer(head(503, {"Retry-After: Sun, 09 Sep 2001 01:46:45 GMT\r\n"}), "", context).retry_after ==
        std::chrono::seconds(5));
  CHECK(judge_answer(head(503, {"Retry-After: Sun, 09 Sep 2001 01:46:00 GMT\r\n"}), "", context).retry_after ==
        std::chrono::seconds(0));
  CHECK_FALSE(judge_answer(head(503, {"Retry-After: soon\r\n"}), "", context).retry_after.has_value());
}

TEST_CASE("bodies that are no S3 error") {
  CHECK(parse_error_body("<html><Code>x</Code></html>").code.empty());
  CHECK(parse_error_body("").code.empty());
  CHECK(parse_error_body(body("SlowDown")).code == "SlowDown");
}

TEST_CASE("messages hold no control bytes and have an end") {
  CHECK(printable("a\x01\nb\x7f") == "a\\x01\\x0ab\\x7f");
  CHECK(printable(std::string(1000, 'x')).size() == 303);
}

TEST_CASE("header names in any case, and ranges") {
  ResponseHead lower = head(206, {"etag: \"x\"\r\n", "content-LENGTH:  10 \r\n", "\r\n"});
  CHECK(lower.header("etag") == "\"x\"");
  CHECK(lower.content_length() == 10u);
  CHECK(lower.header("absent").empty());
  CHECK(parse_content_range("bytes 0-9/100")->range == base::ByteRange{0, 10});
  CHECK(parse_content_range("bytes 0-9/100")->size_bytes == 100u);
  CHECK_FALSE(parse_content_range("bytes 0-9/*")->size_bytes.has_value());
  CHECK(parse_content_range("bytes */100")->range.empty());
  for (const char* bad : {"", "0-9/100", "bytes 9-0/100", "bytes 0-9", "bytes a-b/c", "bytes -9/10",
                          "bytes 0-18446744073709551615/18446744073709551616"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_content_range(bad).has_value());
  }
}

TEST_CASE("archived objects, and restored ones") {
  const auto info = [](std::initializer_list<const char*> headers) {
    return object_info_of(head(200, headers), "k", 1);
  };
  CHECK(info({"x-amz-storage-class: GLACIER\r\n"}).archived);
  CHECK(info({"x-amz-storage-class: DEEP_ARCHIVE\r\n", "x-amz-restore: ongoing-request=\"true\"\r\n"}).archived);
  CHECK_FALSE(info({"x-amz-storage-class: GLACIER\r\n",
                    "x-amz-restore: ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\"\r\n"})
                  .archived);
  CHECK_FALSE(info({"x-amz-storage-class: GLACIER_IR\r\n"}).archived);
  CHECK(info({"x-amz-storage-class: INTELLIGENT_TIERING\r\n", "x-amz-archive-status: ARCHIVE_ACCESS\r\n"}).archived);
  CHECK(info({"x-amz-storage-class: STANDARD\r\n"}).storage_class.empty());
}

}  // namespace
}  // namespace shardfs::s3
