// What each fault does on the wire, and requests that are held.
#include <thread>

#include "fixture.h"

namespace shardfs::teststore {
namespace {

using namespace std::chrono_literals;
using End = RawReply::End;

constexpr uint64_t kSize = 100000;
constexpr char kRange[] = "Range: bytes=1000-60999\r\n";

struct Faulty : Started {
  Faulty() {
    etag = server.put_generated("b", "k", kSize, 1);
    content = generated(1, 0, kSize);
    part = content.substr(1000, 60000);
  }

  // Arms one fault, once, for GETs of k.
  void arm(Action action, int64_t at_byte = 0) {
    Fault fault;
    fault.match.kind = Kind::kGet;
    fault.action = action;
    fault.at_byte = at_byte;
    server.add_fault(fault);
  }
  RawReply get() { return ask("GET /b/k", kRange); }

  std::string etag, content, part;
};

TEST_CASE_FIXTURE(Faulty, "reset, close and their exact byte") {
  for (const int64_t at : {0, 1, 12345, 59999}) {
    CAPTURE(at);
    arm(Action::kReset, at);
    RawReply reply = get();
    CHECK(reply.status == 206);
    CHECK(reply.headers["Content-Length"] == "60000");
    CHECK((reply.body == part.substr(0, static_cast<size_t>(at))));
    CHECK(reply.end == End::kReset);
    arm(Action::kClose, at);
    reply = get();
    CHECK((reply.body == part.substr(0, static_cast<size_t>(at))));
    CHECK(reply.end == End::kClosed);
    CHECK(reply.headers["Content-Length"] == "60000");
  }
  arm(Action::kReset, -1);
  RawReply reply = get();
  CHECK(reply.status == 0);
  CHECK(reply.end == End::kReset);
  arm(Action::kClose, -1);
  CHECK(get().end == End::kClosed);
  CHECK((get().body == part));
}

TEST_CASE_FIXTURE(Faulty, "short and long bodies are well-formed messages") {
  RawClient client = connect();
  arm(Action::kShort, 77);
  RawReply reply = client.ask("GET /b/k", kRange);
  CHECK(reply.status == 206);
  CHECK(reply.headers["Content-Range"] == "bytes 1000-60999/100000");
  CHECK((reply.body == part.substr(0, 77)));
  arm(Action::kLong, 5);
  reply = client.ask("GET /b/k", kRange);
  CHECK((reply.body == part + std::string(5, '\0')));
  CHECK(reply.headers["Content-Range"] == "bytes 1000-60999/100000");
  CHECK((client.ask("GET /b/k", kRange).body == part));
}

TEST_CASE_FIXTURE(Faulty, "ranges that are not what was asked for") {
  RawClient client = connect();
  arm(Action::kWrongRange, 10);
  RawReply reply = client.ask("GET /b/k", kRange);
  CHECK(reply.headers["Content-Range"] == "bytes 1010-61009/100000");
  CHECK((reply.body == content.substr(1010, 60000)));
  arm(Action::kFull200);
  reply = client.ask("GET /b/k", kRange);
  CHECK(reply.status == 200);
  CHECK_FALSE(reply.headers.contains("Content-Range"));
  CHECK((reply.body == content));
  arm(Action::kPartial200);
  reply = client.ask("GET /b/k", kRange);
  CHECK(reply.status == 200);
  CHECK(reply.headers["Content-Range"] == "bytes 1000-60999/100000");
  CHECK((reply.body == part));
  arm(Action::kNoRange);
  reply = client.ask("GET /b/k", kRange);
  CHECK(reply.status == 206);
  CHECK_FALSE(reply.headers.contains("Content-Range"));
  CHECK((reply.body == part));
}

TEST_CASE_FIXTURE(Faulty, "a bad length, a flipped bit, another ETag, lower-case names, extra headers") {
  {
    arm(Action::kBadLength);
    RawClient client = connect();
    client.send("GET /b/k", kRange);
    CHECK(client.receive_head().find("Content-Length: many\r\n") != std::string::npos);
    CHECK((client.receive_bytes(60000) == part));
  }
  RawClient client = connect();
  arm(Action::kFlip, 59999);
  RawReply reply = client.ask("GET /b/k", kRange);
  std::string expected = part;
  expected.back() = static_cast<char>(expected.back() ^ 1);
  CHECK((reply.body == expected));
  arm(Action::kEtag);
  reply = client.ask("GET /b/k", "If-Match: " + etag + "\r\n");
  CHECK(reply.status == 200);
  CHECK(reply.headers["ETag"] != etag);
  CHECK((reply.body == content));
  Fault headers;
  headers.action = Action::kHeaders;
  headers.headers = {{"x-amz-restore", "ongoing-request=\"true\""}, {"ETag", "\"set\""}};
  server.add_fault(headers);
  reply = client.ask("HEAD /b/k");
  CHECK(reply.headers["x-amz-restore"] == "ongoing-request=\"true\"");
  CHECK(reply.headers["ETag"] == "\"set\"");
  arm(Action::kLowerNames);
  client.send("GET /b/k", kRange);
  const std::string head = client.receive_head();
  CHECK(head.find("content-length: 60000\r\n") != std::string::npos);
  CHECK(head.find("etag: ") != std::string::npos);
}

TEST_CASE_FIXTURE(Faulty, "status and HTML in the place of the object") {
  RawClient client = connect();
  Fault fault;
  fault.retry_after_s = 7;
  fault.headers = {{"x-amz-bucket-region", "eu-west-1"}};
  server.add_fault(fault);
  RawReply reply = client.ask("GET /b/k");
  CHECK(reply.status == 503);
  CHECK(elements(reply.body, "Code").at(0) == "SlowDown");
  CHECK(reply.headers["Retry-After"] == "7");
  CHECK(reply.headers["x-amz-bucket-region"] == "eu-west-1");
  arm(Action::kHtml);
  reply = client.ask("GET /b/k");
  CHECK(reply.status == 200);
  CHECK(reply.headers["Content-Type"] == "text/html");
  CHECK(reply.body.starts_with("<!DOCTYPE html>"));
  CHECK((client.ask("GET /b/k").body == content));
  CHECK(server.stats().body_bytes == kSize);
}

TEST_CASE_FIXTURE(Faulty, "faults of a part that begins late spare the others") {
  Fault fault;
  fault.match.range_begin_at_least = 1000;
  fault.times = -1;
  const uint64_t id = server.add_fault(fault);
  CHECK(ask("GET /b/k", "Range: bytes=999-1005\r\n").status == 206);
  CHECK(ask("HEAD /b/k").status == 200);
  CHECK(get().status == 503);
  CHECK(server.fired(id) == 1);
}

TEST_CASE_FIXTURE(Faulty, "a stall sends its bytes and then waits for the peer") {
  arm(Action::kStall, 100);
  RawClient client = connect();
  client.send("GET /b/k", kRange);
  client.receive_head();
  CHECK(client.receive_bytes(100) == part.substr(0, 100));
  CHECK(server.stats().requests_now == 1);
  server.stop();  // ends it; nothing more has come
  CHECK(client.receive_bytes(1).empty());
}

TEST_CASE_FIXTURE(Faulty, "a black hole answers nothing, also while the server stops") {
  arm(Action::kBlackHole);
  RawClient client = connect();
  client.send("GET /b/k", kRange);
  CHECK(ask("HEAD /b/k").status == 200);
  server.stop();
  CHECK(client.receive_head().empty());
}

TEST_CASE_FIXTURE(Faulty, "listings as some stores give them") {
  for (const char* key : {"l/1", "l/2", "l/3+"}) server.put("b", key, "x");
  RawClient client = connect();
  const std::string list = "GET /b?list-type=2&encoding-type=url&prefix=l/&max-keys=2";
  Fault fault;
  fault.match.kind = Kind::kList;
  fault.action = Action::kV1;
  server.add_fault(fault);
  RawReply reply = client.ask(list);
  CHECK(elements(reply.body, "KeyCount").empty());
  CHECK(elements(reply.body, "NextContinuationToken").empty());
  CHECK(elements(reply.body, "Key").size() == 2);
  fault.action = Action::kPlainKeys;
  server.add_fault(fault);
  reply = client.ask("GET /b?list-type=2&encoding-type=url&prefix=l/3");
  CHECK(elements(reply.body, "Key").at(0) == "l/3+");
  CHECK(elements(reply.body, "EncodingType").empty());
  fault.action = Action::kUnordered;
  server.add_fault(fault);
  CHECK(elements(client.ask(list).body, "Key") == std::vector<std::string>{"l/2", "l/1"});
  fault.action = Action::kRepeatPage;
  server.add_fault(fault);
  const std::string token = elements(client.ask(list).body, "NextContinuationToken").at(0);
  CHECK(elements(client.ask(list + "&continuation-token=" + percent_encode(token, false)).body, "Key") ==
        std::vector<std::string>{"l/1", "l/2"});
}

TEST_CASE_FIXTURE(Faulty, "held requests wait for the release, others pass") {
  const uint64_t hold = server.hold({.kind = Kind::kGet});
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect());
    clients.back().send("GET /b/k", kRange);
  }
  CHECK(server.await_waiting(3));
  CHECK(ask("HEAD /b/k").status == 200);
  CHECK(server.key_stats("b", "k").body_bytes == 0);
  CHECK(server.key_stats("b", "k").max_concurrent == 4);
  clients.pop_back();  // one gives up
  CHECK(server.await_waiting(2));
  server.release(hold);
  for (RawClient& client : clients) CHECK((client.receive().body == part));
  CHECK(server.waiting() == 0);
  CHECK((get().body == part));
}

TEST_CASE_FIXTURE(Faulty, "a hold within the body") {
  server.hold({.key = "k"}, 5000);
  RawClient client = connect();
  client.send("GET /b/k", kRange);
  client.receive_head();
  CHECK((client.receive_bytes(5000) == part.substr(0, 5000)));
  CHECK(server.await_waiting(1));
  CHECK(server.key_stats("b", "k").body_bytes == 5000);
  server.release();
  CHECK((client.receive_bytes(55000) == part.substr(5000)));
}

TEST_CASE_FIXTURE(Faulty, "delays, slow bodies and a limited bandwidth keep the bytes right") {
  Fault fault;
  fault.action = Action::kDelay;
  fault.delay = 5ms;
  fault.times = 2;
  server.add_fault(fault);
  fault.at_byte = 30000;
  server.add_fault(fault);
  CHECK((get().body == part));
  fault.action = Action::kSlow;
  fault.bytes_per_s = 10 << 20;
  fault.times = 1;
  server.add_fault(fault);
  CHECK((get().body == part));
  server.set_shape({1ms, 1ms, 20 << 20});
  CHECK((get().body == part));
  CHECK(ask("GET /b?list-type=2").status == 200);
}

TEST_CASE("more clients than the limit wait for a free place") {
  Options options = Started::unsigned_options();
  options.connection_limit = 2;
  Server server(options);
  REQUIRE(server.start());
  server.put("b", "k", "hello");
  RawClient first(server.port()), second(server.port());
  CHECK(first.ask("GET /b/k").body == "hello");
  CHECK(second.ask("GET /b/k").body == "hello");
  RawClient third(server.port());
  third.send("GET /b/k");
  CHECK(server.stats().connections_open == 2);
  first.close();
  CHECK(third.receive().body == "hello");
  CHECK(server.stats().max_concurrent_requests == 1);
}

TEST_CASE("many clients at once, and a stop in their midst") {
  Server server(Started::unsigned_options());
  REQUIRE(server.start());
  server.put_generated("b", "k", 1 << 20, 4);
  const std::string content = generated(4, 0, 1 << 20);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      RawClient client(server.port());
      for (int n = 0; n < 10; ++n) right += client.ask("GET /b/k").body == content;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 80);
  CHECK(server.key_stats("b", "k").body_bytes == 80 << 20);
  server.hold({});
  RawClient held(server.port());
  held.send("GET /b/k");
  CHECK(server.await_waiting(1));
  server.stop();
  CHECK(held.receive().status == 0);
}

}  // namespace
}  // namespace shardfs::teststore
