// GETs against a server that misbehaves: which bytes reach the sink, what is asked for next, and how it ends.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "store_fixture.h"

namespace shardfs::s3::test {
namespace {

using Then = Answer::Then;

std::string make_object(size_t size) {
  std::string out;
  uint32_t state = 1;
  while (out.size() < size) {
    state = state * 1664525 + 1013904223;
    out += static_cast<char>(state >> 24);
  }
  return out;
}

const std::string kObject = make_object(300000);

/// The first `keep` bytes of an answer's body.
std::string cut(const std::string& answer, size_t keep) { return answer.substr(0, answer.find("\r\n\r\n") + 4 + keep); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::vector<std::string> ranges(const StoreFixture& f) {
  std::vector<std::string> out;
  for (const auto& request : f.server.requests()) out.push_back(request.header("range"));
  return out;
}

using Strings = std::vector<std::string>;

TEST_CASE("a range arrives whole, with what the store says of the object") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; });
  CHECK(f.get({1000, 200000}, object(kObject.size())) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(1000, 199000));
  CHECK(f.sink->in_order());
  CHECK(f.sink->info()->size_bytes == kObject.size());
  CHECK(f.sink->info()->etag == "\"v1\"");
  CHECK(f.sink->info()->key == "dir/key");
  const auto request = f.server.requests().at(0);
  CHECK(request.target() == "/bucket/dir/key");
  CHECK(request.header("range") == "bytes=1000-199999");
  CHECK(request.header("if-match") == "\"v1\"");
  CHECK(request.header("accept-encoding") == "identity");
  CHECK(request.header("authorization").empty());
  CHECK(request.header("user-agent").starts_with("shardfs/"));
  CHECK(f.counter("store_requests", "get") == 1);
  CHECK(f.counter("store_retries", "get") == 0);
  CHECK(f.counter("store_received_bytes") == 199000);
  CHECK(f.metrics.histogram("store_first_byte_seconds", "get").count() == 1);
}

TEST_CASE("no If-Match without an expected ETag, or with a weak one") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject, "W/\"v1\"")}; });
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.get({0, 10}, object(kObject.size(), "W/\"v1\"")) == "ok");
  CHECK(f.server.requests().at(0).header("if-match").empty());
  CHECK(f.server.requests().at(1).header("if-match").empty());
}

TEST_CASE("odd keys go out encoded once, dots and slashes as they are") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, "x")}; });
  const std::vector<std::pair<std::string, std::string>> keys = {{"with space", "with%20space"},
                                                                 {"with%20space", "with%2520space"},
                                                                 {"+lead", "%2Blead"},
                                                                 {"a/./x", "a/./x"},
                                                                 {"a/../x", "a/../x"},
                                                                 {"..", ".."},
                                                                 {"exp2//a/x", "exp2//a/x"},
                                                                 {"/lead", "/lead"},
                                                                 {"q?x#y", "q%3Fx%23y"},
                                                                 {"X\x01Y", "X%01Y"},
                                                                 {"unicode-\xc3\xbc", "unicode-%C3%BC"},
                                                                 {"100%", "100%25"},
                                                                 {"end/", "end/"}};
  for (const auto& [key, sent] : keys) {
    auto options = get_options({0, 1});
    options.key = key;
    CAPTURE(options.key);
    CHECK(f.run(options) == "ok");
    CHECK(f.server.requests().back().target() == "/bucket/" + sent);
  }
}

TEST_CASE("header names in lower case, and an interim answer before") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{
        "HTTP/1.1 103 Early Hints\r\netag: \"no\"\r\n\r\n"
        "HTTP/1.1 206 x\r\ncontent-length: 3\r\ncontent-range: bytes 0-2/3\r\netag: \"v1\"\r\n\r\nabc"};
  });
  CHECK(f.get({0, 3}, object(3)) == "ok");
  CHECK(f.sink->bytes() == "abc");
}

TEST_CASE("an encoded object arrives as it is stored") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    return Answer{replaced(ranged_answer(r, "\x1f\x8b\x08zzz"), "ETag", "Content-Encoding: gzip\r\nETag")};
  });
  CHECK(f.get({0, 6}) == "ok");
  CHECK(f.sink->bytes() == "\x1f\x8b\x08zzz");
}

TEST_CASE("a chunked body") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{
        "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-5/6\r\nETag: \"v1\"\r\n\r\n"
        "4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"};
  });
  CHECK(f.get({0, 6}, object(6)) == "ok");
  CHECK(f.sink->bytes() == "abcdef");
}

TEST_CASE("after resets inside the body it goes on at the exact byte") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    const auto good = ranged_answer(r, kObject);
    if (index == 0) return Answer{cut(good, 70001), Then::kReset};
    if (index == 1) return Answer{cut(good, 1), Then::kReset};
    if (index == 2) return Answer{cut(good, 0), Then::kReset};
    if (index == 3) return Answer{cut(good, 50000), Then::kClose};
    return Answer{good};
  });
  CHECK(f.get({100, 290000}, object(kObject.size())) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(100, 289900));
  CHECK(f.sink->in_order());
  // What the kernel had not handed over when the reset came is asked for again.
  const auto asked = ranges(f);
  REQUIRE(asked.size() == 5);
  CHECK(asked[0] == "bytes=100-289999");
  CHECK(f.counter("store_requests", "get") == 5);
  CHECK(f.counter("store_retries", "get") == 4);
  CHECK(f.counter("store_errors", "transient") == 0);
}

TEST_CASE("after a short body it asks for the rest only") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    const auto good = ranged_answer(r, kObject);
    return index == 0 ? Answer{cut(good, 70001), Then::kClose} : Answer{good};
  });
  CHECK(f.get({0, 100000}) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(0, 100000));
  CHECK(ranges(f) == Strings{"bytes=0-99999", "bytes=70001-99999"});
  CHECK(f.server.requests().at(1).header("if-match") == "\"v1\"");  // the version of the first answer
}

TEST_CASE("a reset before the answer") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    return index < 3 ? Answer{"", Then::kReset} : Answer{ranged_answer(r, kObject)};
  });
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(0, 10));
}

TEST_CASE("a version that changes between two tries ends it") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    const auto good = ranged_answer(r, kObject, index == 0 ? "\"v1\"" : "\"v2\"");
    return index == 0 ? Answer{cut(good, 1000), Then::kClose} : Answer{good};
  });
  CHECK(f.get({0, 5000}) == "changed");
  CHECK(f.sink->bytes() == kObject.substr(0, 1000));
  CHECK(f.server.requests().size() == 2);
}

TEST_CASE("another version than the expected one gives no byte") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject, "\"v2\"")}; });
  CHECK(f.get({0, 5000}, object(kObject.size())) == "changed");
  CHECK_FALSE(f.sink->info().has_value());
  CHECK(f.sink->bytes().empty());
  CHECK(f.get({0, 5000}, object(kObject.size() + 1, "")) == "changed");  // no ETag known: by its size
  CHECK(f.counter("store_errors", "changed") == 2);
}

TEST_CASE("versions by Last-Modified where there is no ETag") {
  StoreFixture f(
      [](size_t, const SeenRequest& r) { return Answer{replaced(ranged_answer(r, kObject), "ETag: \"v1\"\r\n", "")}; });
  auto expect = object(kObject.size(), "");
  expect.last_modified = base::WallTime(std::chrono::seconds(1255369830));  // Mon, 12 Oct 2009 17:50:30 GMT
  CHECK(f.get({0, 10}, expect) == "ok");
  expect.last_modified += std::chrono::seconds(1);
  CHECK(f.get({0, 10}, expect) == "changed");
}

TEST_CASE("412 for an object that was replaced, and for one that was not") {
  std::string etag = "\"v2\"";
  StoreFixture f([&](size_t, const SeenRequest& r) {
    return r.header("if-match").empty() ? Answer{ranged_answer(r, kObject, etag)}
                                        : Answer{error_answer("412 No", "PreconditionFailed")};
  });
  CHECK(f.get({0, 10}, object(kObject.size())) == "changed");
  CHECK(f.server.requests().size() == 2);
  etag = "\"v1\"";
  CHECK(f.get({0, 10}, object(kObject.size())) == "ok");
  CHECK(f.server.requests().size() == 4);
  CHECK(f.get({0, 10}, object(kObject.size())) == "ok");  // learned: one request
  CHECK(f.server.requests().size() == 5);
  etag = "\"v3\"";
  CHECK(f.get({0, 10}, object(kObject.size())) == "changed");  // compared here all the same
}

TEST_CASE("stores that refuse If-Match in other ways") {
  for (const char* status : {"400 Bad", "501 Not"}) {
    CAPTURE(status);
    StoreFixture f([&](size_t, const SeenRequest& r) {
      return r.header("if-match").empty() ? Answer{ranged_answer(r, kObject)}
                                          : Answer{error_answer(status, "NotImplemented")};
    });
    CHECK(f.get({0, 10}, object(kObject.size())) == "ok");
    CHECK(f.sink->bytes() == kObject.substr(0, 10));
  }
}

TEST_CASE("200 is believed only as the whole object") {
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{answer("200 OK", "ETag: \"v1\"\r\n", "0123456789")}; });
  CHECK(f.get({0, 10}, object(10)) == "ok");
  CHECK(f.sink->bytes() == "0123456789");
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.get({0, 5}, object(10)) == "integrity");
  CHECK(f.sink->bytes().empty());
  CHECK(f.get({5, 10}, object(10)) == "integrity");
  CHECK(f.sink->bytes().empty());
  CHECK(f.counter("store_requests", "get") == 2 + 4 + 4);  // asked for again three times
}

TEST_CASE("200 that is labelled as the range that was asked for") {
  StoreFixture f(
      [](size_t, const SeenRequest& r) { return Answer{replaced(ranged_answer(r, kObject), "206", "200")}; });
  CHECK(f.get({5, 100}, object(kObject.size())) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(5, 95));
}

TEST_CASE("a part that is labelled as the whole") {
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{answer("200 OK", "ETag: \"v1\"\r\n", "01234")}; });
  CHECK(f.get({0, 10}, object(10)) == "integrity");
  CHECK(f.get({5, 10}, object(10)) == "integrity");
  CHECK(f.sink->bytes().empty());
}

TEST_CASE("a wrong answer once, then a right one") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    return index == 0 ? Answer{answer("200 OK", "ETag: \"v1\"\r\n", kObject)} : Answer{ranged_answer(r, kObject)};
  });
  CHECK(f.get({7, 77}, object(kObject.size())) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(7, 70));
}

TEST_CASE("ranges that are not the one that was asked for") {
  const std::vector<std::string> wrong = {"bytes 0-9/300000",   "bytes 10-18/300000", "bytes 11-20/300000",
                                          "bytes 10-19/299999", "10-19/300000",       "bytes */300000",
                                          "nonsense",           "bytes 10-19/15"};
  for (const auto& content_range : wrong) {
    CAPTURE(content_range);
    StoreFixture f([&](size_t, const SeenRequest& r) {
      return Answer{replaced(ranged_answer(r, kObject), "bytes 10-19/300000", content_range)};
    });
    CHECK(f.get({10, 20}, object(kObject.size())) == "integrity");
    CHECK(f.sink->bytes().empty());
    CHECK_FALSE(f.sink->info().has_value());
  }
}

TEST_CASE("206 without a Content-Range") {
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{answer("206 x", "ETag: \"v1\"\r\n", "0123456789")}; });
  CHECK(f.get({0, 10}, object(10)) == "integrity");
  CHECK(f.sink->bytes().empty());
}

TEST_CASE("a body of another length than the range says") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{answer("206 x", "Content-Range: bytes 0-9/100\r\nETag: \"v1\"\r\n", "0123456789ABC")};
  });
  CHECK(f.get({0, 10}, object(100)) == "integrity");
  CHECK(f.sink->bytes().empty());
}

TEST_CASE("a chunked body that is longer than the range") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{
        "HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-2/100\r\nETag: \"v1\"\r\n\r\n"
        "5\r\nabcde\r\n0\r\n\r\n"};
  });
  CHECK(f.get({0, 3}, object(100)) == "integrity");
  CHECK(f.sink->bytes().empty());
}

TEST_CASE("bytes after the promised ones are nobody's") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject) + "EXTRA"}; });
  for (int i = 0; i < 3; ++i) {
    CHECK(f.get({0, 10}, object(kObject.size())) == "ok");
    CHECK(f.sink->bytes() == kObject.substr(0, 10));
  }
}

TEST_CASE("an object that is shorter than the range") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{answer("206 x", "Content-Range: bytes 0-4/5\r\nETag: \"v1\"\r\n", "01234")};
  });
  CHECK(f.get({0, 10}) == "invalid");
  CHECK(f.message.find("only 5 bytes") != std::string::npos);
  CHECK(f.get({0, 10}, object(10, "")) == "changed");
}

TEST_CASE("416 says that the object is shorter now") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{error_answer("416 x", "InvalidRange", "Content-Range: bytes */5\r\n")};
  });
  CHECK(f.get({5, 10}, object(10)) == "changed");
  CHECK(f.get({5, 10}) == "invalid");
}

TEST_CASE("error pages never reach the sink") {
  StoreFixture f([](size_t index, const SeenRequest& r) {
    if (index == 0) return Answer{answer("502 Bad Gateway", "Content-Type: text/html\r\n", "<html>gateway</html>")};
    if (index == 1) return Answer{error_answer("500 x", "InternalError")};
    if (index == 2) return Answer{error_answer("503 x", "SlowDown", "Retry-After: 0\r\n")};
    if (index == 3) return Answer{"garbage that is no HTTP\r\n\r\n", Then::kClose};
    return Answer{ranged_answer(r, kObject)};
  });
  CHECK(f.get({0, 100}, object(kObject.size())) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(0, 100));
  CHECK(f.counter("store_retries", "get") == 4);
  CHECK(f.gauge("store_connections_limit") < 64);
}

TEST_CASE("503 to the end is transient, never not found") {
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{error_answer("503 x", "SlowDown")}; });
  auto options = get_options({0, 10});
  options.deadline = std::chrono::milliseconds(300);
  CHECK(f.run(options) == "transient");
  CHECK(f.message.find("503 SlowDown") != std::string::npos);
  CHECK(f.message.find("s3://bucket/dir/key [0,10)") != std::string::npos);
  CHECK(f.counter("store_errors", "transient") == 1);
}

TEST_CASE("a Retry-After past the deadline is not waited for") {
  StoreFixture f(
      [](size_t, const SeenRequest&) { return Answer{error_answer("503 x", "SlowDown", "Retry-After: 60\r\n")}; });
  CHECK(f.get({0, 10}) == "transient");
  CHECK(f.server.requests().size() == 1);
}

TEST_CASE("final answers are not asked for twice") {
  struct Case {
    const char *status, *code, *expected;
  };
  const std::vector<Case> cases = {{"404 x", "NoSuchKey", "not_found"},
                                   {"404 x", "NoSuchBucket", "not_found"},
                                   {"403 x", "AccessDenied", "permission"},
                                   {"403 x", "InvalidObjectState", "permission"},
                                   {"400 x", "KMS.DisabledException", "invalid"}};
  for (const auto& c : cases) {
    CAPTURE(c.code);
    StoreFixture f([&](size_t, const SeenRequest&) { return Answer{error_answer(c.status, c.code)}; });
    CHECK(f.get({0, 10}) == c.expected);
    CHECK(f.server.requests().size() == 1);
    CHECK(f.message.find(c.code) != std::string::npos);
    CHECK(f.sink->bytes().empty());
  }
}

TEST_CASE("no first byte in time: another try") {
  S3Options options;
  options.first_byte_timeout = std::chrono::milliseconds(50);
  StoreFixture f(
      [](size_t index, const SeenRequest& r) {
        return index == 0 ? Answer{"", Then::kHold} : Answer{ranged_answer(r, kObject)};
      },
      options);
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(0, 10));
  f.server.release();
}

TEST_CASE("a body that stalls: another try from there") {
  S3Options options;
  options.stall_timeout = std::chrono::milliseconds(50);
  StoreFixture f(
      [](size_t index, const SeenRequest& r) {
        const auto good = ranged_answer(r, kObject);
        return index == 0 ? Answer{cut(good, 4), Then::kHold} : Answer{good};
      },
      options);
  CHECK(f.get({0, 10}) == "ok");
  CHECK(f.sink->bytes() == kObject.substr(0, 10));
  CHECK(ranges(f) == Strings{"bytes=0-9", "bytes=4-9"});
  f.server.release();
}

TEST_CASE("a server that never answers is a time-out") {
  S3Options options;
  options.first_byte_timeout = std::chrono::milliseconds(20);
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{"", Then::kHold}; }, options);
  auto get = get_options({0, 10});
  get.deadline = std::chrono::milliseconds(200);
  CHECK(f.run(get) == "timeout");
  get.deadline = std::chrono::milliseconds(10);  // before the first byte's own limit
  CHECK(f.run(get) == "timeout");
  f.server.release();
}

TEST_CASE("nobody listens: transient within the deadline") {
  S3Options options;
  {
    ScriptedServer gone([](size_t, const SeenRequest&) { return Answer{}; });
    options.endpoint_url = gone.url();
  }
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{}; }, options);
  auto get = get_options({0, 10});
  get.deadline = std::chrono::milliseconds(1000);
  CHECK(f.run(get) == "transient");
}

TEST_CASE("a name that does not exist: transient within the deadline") {
  S3Options options;
  options.endpoint_url = "http://no-such-host.invalid";
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{}; }, options);
  auto get = get_options({0, 10});
  get.deadline = std::chrono::milliseconds(300);
  const auto code = f.run(get);
  CHECK((code == "transient" || code == "timeout"));
}

TEST_CASE("a reader that wants no more") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; });
  auto sink = std::make_shared<KeepingSink>();
  sink->stop_after(1);
  std::promise<base::Result<void>> promise;
  f.store->get(get_options({0, kObject.size()}), sink, [&](base::Result<void> r) { promise.set_value(std::move(r)); });
  CHECK(code_of(promise.get_future().get()) == "cancelled");
  CHECK(f.server.requests().size() == 1);
}

TEST_CASE("requests that make no sense") {
  StoreFixture f([](size_t, const SeenRequest&) { return Answer{}; });
  CHECK(f.get({10, 10}) == "invalid");
  auto options = get_options({0, 1});
  options.key.clear();
  CHECK(f.run(options) == "invalid");
  CHECK(f.server.requests().empty());
}

TEST_CASE("a kept connection is used again") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; },
                 [] {
                   S3Options options;
                   options.loops = 1;
                   return options;
                 }());
  for (int i = 0; i < 10; ++i) CHECK(f.get({0, 1000}) == "ok");
  CHECK(f.server.connections() == 1);
  CHECK(f.server.requests().size() == 10);
}

TEST_CASE("a kept connection that the server has closed") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject), Then::kClose}; });
  for (int i = 0; i < 5; ++i) CHECK(f.get({0, 1000}) == "ok");
}

}  // namespace
}  // namespace shardfs::s3::test
