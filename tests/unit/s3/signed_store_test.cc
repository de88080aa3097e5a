// The whole store with keys: what is signed, and what it does when the store refuses keys, clock or region.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "store_fixture.h"

namespace shardfs::s3::test {
namespace {

const std::string kObject(100, 'o');

/// A profile file for a store that signs.
struct Keys {
  Keys() {
    char name[] = "/tmp/shardfs-s3-XXXXXX";
    folder = mkdtemp(name);
    setenv("AWS_SHARED_CREDENTIALS_FILE", (folder + "/credentials").c_str(), 1);
    setenv("AWS_CONFIG_FILE", (folder + "/config").c_str(), 1);
    write("OLDKEY");
  }
  ~Keys() {
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    unsetenv("AWS_CONFIG_FILE");
    std::filesystem::remove_all(folder);
  }
  void write(const std::string& id) const {
    std::ofstream(folder + "/credentials") << "[test]\naws_access_key_id = " << id
                                           << "\naws_secret_access_key = SECRETSECRET\naws_session_token = TOKEN\n";
  }
  S3Options options(const std::string& region = "") const {
    S3Options out;
    out.profile = "test";
    out.region = region;
    return out;
  }
  std::string folder;
};

TEST_CASE("signed requests carry key, scope, token and date") {
  Keys keys;
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; },
                 keys.options("eu-west-1"));
  CHECK(f.get({0, 10}) == "ok");
  const auto request = f.server.requests().at(0);
  const auto authorization = request.header("authorization");
  CHECK(authorization.find("Credential=OLDKEY/") != std::string::npos);
  CHECK(authorization.find("/eu-west-1/s3/aws4_request") != std::string::npos);
  CHECK(authorization.find("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;x-amz-security-token") !=
        std::string::npos);
  CHECK(request.header("x-amz-security-token") == "TOKEN");
  CHECK(request.header("x-amz-date").size() == 16);
  CHECK(request.head.find("SECRETSECRET") == std::string::npos);
}

TEST_CASE("refused keys are read again once") {
  for (const char* code : {"ExpiredToken", "InvalidAccessKeyId"}) {
    CAPTURE(code);
    Keys keys;
    StoreFixture f(
        [&](size_t, const SeenRequest& r) {
          return r.header("authorization").find("NEWKEY") != std::string::npos ? Answer{ranged_answer(r, kObject)}
                                                                               : Answer{error_answer("400 x", code)};
        },
        keys.options());
    CHECK(f.get({0, 10}) == "permission");
    CHECK(f.server.requests().size() == 2);
    CHECK(f.message.find("SECRETSECRET") == std::string::npos);
    CHECK(f.message.find("TOKEN\n") == std::string::npos);
    keys.write("NEWKEY");
    CHECK(f.get({0, 10}) == "ok");
    CHECK(f.server.requests().size() == 4);
  }
}

TEST_CASE("a HEAD that is refused without a reason looks for other keys") {
  Keys keys;
  StoreFixture f(
      [&](size_t, const SeenRequest& r) {
        return r.header("authorization").find("NEWKEY") != std::string::npos
                   ? Answer{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"}
                   : Answer{"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n"};
      },
      keys.options());
  CHECK(f.head("k").error().code == base::Code::kPermission);
  CHECK(f.server.requests().size() == 1);  // the same keys are not sent again
  keys.write("NEWKEY");
  CHECK(f.head("k")->size_bytes == 5);
}

TEST_CASE("a clock that is off is corrected by the store's") {
  Keys keys;
  StoreFixture f(
      [&](size_t, const SeenRequest& r) {
        if (r.header("x-amz-date").starts_with("2031")) return Answer{ranged_answer(r, kObject)};
        return Answer{error_answer("403 x", "RequestTimeTooSkewed", "Date: Thu, 02 Jan 2031 03:04:05 GMT\r\n")};
      },
      keys.options());
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.server.requests().size() == 2);
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.server.requests().size() == 3);
}

TEST_CASE("the right region: followed when none was given, named when another was") {
  Keys keys;
  const auto script = [](size_t, const SeenRequest& r) {
    if (r.header("authorization").find("/ap-south-1/") != std::string::npos) return Answer{ranged_answer(r, kObject)};
    return Answer{error_answer("301 Moved", "PermanentRedirect", "x-amz-bucket-region: ap-south-1\r\n")};
  };
  StoreFixture free(script, keys.options());
  CHECK(free.get({0, 10}) == "ok");
  CHECK(free.get({0, 10}) == "ok");
  CHECK(free.server.requests().size() == 3);
  StoreFixture given(script, keys.options("eu-west-1"));
  CHECK(given.get({0, 10}) == "invalid");
  CHECK(given.server.requests().size() == 1);
  CHECK(given.message.find("in region ap-south-1, not eu-west-1") != std::string::npos);
}

}  // namespace
}  // namespace shardfs::s3::test
