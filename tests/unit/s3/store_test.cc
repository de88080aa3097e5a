// The whole store: HEAD and LIST, order and limits, cancelling, and its end.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <thread>

#include "s3/timestamps.h"
#include "store_fixture.h"

namespace shardfs::s3::test {
namespace {

using store::Priority;
using Then = Answer::Then;

const std::string kObject(100000, 'o');

/// A get whose end can be waited for.
struct Running {
  std::shared_ptr<KeepingSink> sink = std::make_shared<KeepingSink>();
  std::promise<base::Result<void>> promise;
  store::RequestHandle handle;
  std::string wait() { return code_of(promise.get_future().get()); }
};

std::unique_ptr<Running> start(store::ObjectStore& store, const std::string& key, Priority priority) {
  auto out = std::make_unique<Running>();
  auto options = get_options({0, 10});
  options.key = key;
  options.priority = priority;
  out->handle = store.get(options, out->sink,
                          [raw = out.get()](base::Result<void> result) { raw->promise.set_value(std::move(result)); });
  return out;
}

std::vector<std::string> targets(const StoreFixture& f) {
  std::vector<std::string> out;
  for (const auto& request : f.server.requests()) out.push_back(request.target());
  return out;
}

S3Options with_connections(unsigned count) {
  S3Options options;
  options.connections = count;
  return options;
}

TEST_CASE("HEAD says what the object is") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    if (r.target() == "/bucket/cold") {
      return Answer{"HTTP/1.1 200 OK\r\ncontent-length: 7\r\netag: \"c\"\r\nx-amz-storage-class: GLACIER\r\n\r\n"};
    }
    return Answer{
        "HTTP/1.1 200 OK\r\nContent-Length: 5368709121\r\nETag: \"v1\"\r\n"
        "Last-Modified: Mon, 12 Oct 2009 17:50:30 GMT\r\n\r\n"};
  });
  const auto info = f.head("dir/key");
  REQUIRE(info.has_value());
  CHECK(info->key == "dir/key");
  CHECK(info->size_bytes == 5368709121u);
  CHECK(info->etag == "\"v1\"");
  CHECK(info->last_modified == parse_http_time("Mon, 12 Oct 2009 17:50:30 GMT"));
  CHECK_FALSE(info->archived);
  CHECK(f.server.requests().at(0).method() == "HEAD");
  CHECK(f.head("cold")->archived);
  CHECK(f.counter("store_requests", "head") == 2);
  CHECK(f.server.connections() <= 2);  // a HEAD leaves its connection usable
}

TEST_CASE("HEAD errors have no body to explain them") {
  std::string status;
  StoreFixture f(
      [&](size_t, const SeenRequest&) { return Answer{"HTTP/1.1 " + status + "\r\nContent-Length: 300\r\n\r\n"}; });
  const auto code = [&](const char* s) {
    status = s;
    return f.head("k").error().code;
  };
  CHECK(code("404 x") == base::Code::kNotFound);
  CHECK(code("403 x") == base::Code::kPermission);
  CHECK(code("405 x") == base::Code::kUnsupported);
  CHECK(f.server.requests().size() == 3);
}

TEST_CASE("a 503 at HEAD is asked again, not taken for absence") {
  StoreFixture f([](size_t index, const SeenRequest&) {
    return index < 2 ? Answer{"HTTP/1.1 503 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"}
                     : Answer{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"};
  });
  CHECK(f.head("k")->size_bytes == 5);
}

std::string page(const std::string& inside) {
  return answer("200 OK", "Content-Type: application/xml\r\n", "<ListBucketResult>" + inside + "</ListBucketResult>");
}

std::string entry(const std::string& key) { return "<Contents><Key>" + key + "</Key><Size>1</Size></Contents>"; }

TEST_CASE("LIST asks for version 2, encoded, and goes on with the token") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    if (r.target().find("continuation-token=") != std::string::npos) {
      return Answer{page("<KeyCount>1</KeyCount><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>" +
                         entry("a/z"))};
    }
    return Answer{
        page("<KeyCount>2</KeyCount><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
             "<NextContinuationToken>t+/=</NextContinuationToken>" +
             entry("a/x+%2B") + "<CommonPrefixes><Prefix>a/sub/</Prefix></CommonPrefixes>")};
  });
  store::ListOptions options;
  options.prefix = "a/";
  options.delimiter = "/";
  options.start_after = "a/m n";
  const auto first = f.list(options);
  REQUIRE(first.has_value());
  CHECK(first->objects.at(0).key == "a/x +");
  CHECK(first->prefixes.at(0) == "a/sub/");
  CHECK(first->truncated);
  options.continuation = first->continuation;
  const auto second = f.list(options);
  REQUIRE(second.has_value());
  CHECK(second->objects.at(0).key == "a/z");
  CHECK_FALSE(second->truncated);
  CHECK(targets(f) == std::vector<std::string>{
                          "/bucket?delimiter=%2F&encoding-type=url&list-type=2&max-keys=1000&prefix=a%2F&start-after="
                          "a%2Fm%20n",
                          "/bucket?continuation-token=t%2B%2F%3D&delimiter=%2F&encoding-type=url&list-type=2&max-keys="
                          "1000&prefix=a%2F"});
}

TEST_CASE("truncated without a token: on from the last name") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    if (r.target().find("start-after=") == std::string::npos) {
      return Answer{page("<KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>" + entry("a") + entry("b"))};
    }
    return Answer{page("<KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>" + entry("c"))};
  });
  store::ListOptions options;
  options.continuation = f.list(options)->continuation;
  CHECK(f.list(options)->objects.at(0).key == "c");
  CHECK(targets(f).at(1).find("start-after=b") != std::string::npos);
}

TEST_CASE("a listing that makes no progress ends") {
  StoreFixture f([](size_t, const SeenRequest&) {
    return Answer{page("<KeyCount>1</KeyCount><IsTruncated>true</IsTruncated>" + entry("a"))};
  });
  store::ListOptions options;
  options.continuation = f.list(options)->continuation;
  CHECK(f.list(options).error().code == base::Code::kIntegrity);
}

TEST_CASE("a store that knows version 1 only, and ignores the question") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    if (r.target().find("marker=b") != std::string::npos) {
      return Answer{page("<Marker>b</Marker><IsTruncated>false</IsTruncated>" + entry("c"))};
    }
    return Answer{page("<Marker></Marker><IsTruncated>true</IsTruncated>" + entry("a") + entry("b"))};
  });
  store::ListOptions options;
  const auto first = f.list(options);
  REQUIRE(first.has_value());
  options.continuation = first->continuation;
  CHECK(f.list(options)->objects.at(0).key == "c");
  store::ListOptions after_b;  // learned: asked in version 1 at once
  after_b.start_after = "b";
  CHECK(f.list(after_b)->objects.at(0).key == "c");
  CHECK(targets(f).at(1) == "/bucket?encoding-type=url&marker=b&max-keys=1000&prefix=");
  CHECK(targets(f).at(2) == "/bucket?encoding-type=url&marker=b&max-keys=1000&prefix=");
}

TEST_CASE("a store that knows version 1 only, and refuses version 2") {
  StoreFixture f([](size_t, const SeenRequest& r) {
    if (r.target().find("list-type") != std::string::npos) return Answer{error_answer("501 x", "NotImplemented")};
    return Answer{page("<Marker></Marker><IsTruncated>true</IsTruncated><NextMarker>n</NextMarker>" + entry("a"))};
  });
  CHECK(f.list({})->continuation == "m:n");
  CHECK(f.list({})->objects.at(0).key == "a");
  CHECK(f.server.requests().size() == 3);
}

TEST_CASE("pages that are none are asked for again, a few times") {
  StoreFixture f([](size_t index, const SeenRequest&) {
    if (index == 0) return Answer{answer("200 OK", "", "<html>please sign in</html>")};
    if (index == 1) return Answer{page(entry("a")).substr(0, 80), Then::kClose};
    return Answer{page(entry("a"))};
  });
  CHECK(f.list({})->objects.size() == 1);
  StoreFixture always([](size_t, const SeenRequest&) { return Answer{answer("200 OK", "", "<html></html>")}; });
  CHECK(always.list({}).error().code == base::Code::kIntegrity);
  CHECK(always.server.requests().size() == 4);
  CHECK(always
            .list([] {
              store::ListOptions o;
              o.continuation = "from elsewhere";
              return o;
            }())
            .error()
            .code == base::Code::kInvalid);
}

TEST_CASE("demand starts before read-ahead that asked earlier") {
  StoreFixture f(
      [](size_t index, const SeenRequest& r) {
        if (index == 0) return Answer{"", Then::kHold, ranged_answer(r, kObject)};
        return Answer{ranged_answer(r, kObject)};
      },
      [] {
        S3Options options = with_connections(1);
        options.loops = 1;
        return options;
      }());
  std::vector<std::unique_ptr<Running>> all;
  all.push_back(start(*f.store, "holder", Priority::kReadahead));
  f.server.wait_for_requests(1);
  all.push_back(start(*f.store, "warm", Priority::kWarm));
  all.push_back(start(*f.store, "ahead-1", Priority::kReadahead));
  all.push_back(start(*f.store, "ahead-2", Priority::kReadahead));
  all.push_back(start(*f.store, "raised", Priority::kWarm));
  all.push_back(start(*f.store, "demand", Priority::kDemand));
  all[4]->handle->raise_to(Priority::kDemand);
  // Every start has reached its queue once a later one has ended, which needs no connection.
  std::promise<void> ended;
  f.store->get(get_options({0, 0}), std::make_shared<KeepingSink>(), [&](base::Result<void>) { ended.set_value(); });
  ended.get_future().wait();
  f.server.release();
  for (auto& running : all) CHECK(running->wait() == "ok");
  const auto order = targets(f);
  REQUIRE(order.size() == 6);
  CHECK(order[0] == "/bucket/holder");
  CHECK(std::set<std::string>(order.begin() + 1, order.begin() + 3) ==
        std::set<std::string>{"/bucket/demand", "/bucket/raised"});
  CHECK(order[3] == "/bucket/ahead-1");
  CHECK(order[4] == "/bucket/ahead-2");
  CHECK(order[5] == "/bucket/warm");
}

TEST_CASE("demand gets through while read-ahead holds all that it may") {
  StoreFixture f(
      [](size_t, const SeenRequest& r) {
        if (r.target() == "/bucket/demand") return Answer{ranged_answer(r, kObject)};
        return Answer{"", Then::kHold, ranged_answer(r, kObject)};
      },
      with_connections(4));
  std::vector<std::unique_ptr<Running>> ahead;
  for (int i = 0; i < 8; ++i) ahead.push_back(start(*f.store, "ahead", Priority::kReadahead));
  f.server.wait_for_requests(2);
  CHECK(start(*f.store, "demand", Priority::kDemand)->wait() == "ok");
  CHECK(f.server.requests().size() == 3);  // two of four are kept for demand
  f.server.release();
  for (auto& running : ahead) CHECK(running->wait() == "ok");
}

TEST_CASE("cancel: while it waits for a connection, for an answer, and inside a body") {
  StoreFixture f(
      [](size_t, const SeenRequest& r) {
        if (r.target() == "/bucket/body") return Answer{ranged_answer(r, kObject).substr(0, 150), Then::kHold};
        return Answer{"", Then::kHold};
      },
      with_connections(2));
  auto silent = start(*f.store, "silent", Priority::kDemand);
  auto body = start(*f.store, "body", Priority::kDemand);
  f.server.wait_for_requests(2);
  auto queued = start(*f.store, "queued", Priority::kDemand);
  queued->handle->cancel();
  CHECK(queued->wait() == "cancelled");
  silent->handle->cancel();
  silent->handle->cancel();
  CHECK(silent->wait() == "cancelled");
  body->handle->cancel();
  CHECK(body->wait() == "cancelled");
  body->handle->cancel();
  CHECK(f.server.requests().size() == 2);
  CHECK(f.gauge("store_connections_active") == 0);
  CHECK(f.gauge("store_requests_waiting") == 0);
  CHECK(f.counter("store_errors", "cancelled") == 0);
  f.server.release();
}

TEST_CASE("cancel during the wait before a retry") {
  StoreFixture f(
      [](size_t, const SeenRequest&) { return Answer{error_answer("503 x", "SlowDown", "Retry-After: 9\r\n")}; });
  auto running = start(*f.store, "k", Priority::kDemand);
  f.server.wait_for_requests(1);
  running->handle->cancel();
  CHECK(running->wait() == "cancelled");
}

TEST_CASE("destroying the store ends everything, also what the callbacks start") {
  ScriptedServer server([](size_t, const SeenRequest&) { return Answer{"", Then::kHold}; });
  base::SystemClock clock;
  base::Metrics metrics;
  S3Options options;
  options.bucket = "bucket";
  options.endpoint_url = server.url();
  options.no_sign_request = true;
  options.connections = 4;
  std::atomic<int> ended{0}, cancelled{0};
  {
    auto store = make_s3_store(options, clock, metrics);
    REQUIRE(store.has_value());
    store::ObjectStore& s = **store;
    for (int i = 0; i < 20; ++i) {
      s.get(get_options({0, 10}), std::make_shared<KeepingSink>(), [&](base::Result<void> result) {
        ++ended;
        cancelled += code_of(result) == "cancelled";
        s.head({"again"}, [&](base::Result<store::ObjectInfo> second) {
          ++ended;
          cancelled += !second && second.error().code == base::Code::kCancelled;
        });
      });
    }
    server.wait_for_requests(4);
  }
  CHECK(ended == 40);
  CHECK(cancelled == 40);
  CHECK(metrics.gauge("store_connections_active").value() == 0);
  CHECK(metrics.gauge("store_requests_waiting").value() == 0);
  CHECK(server.requests().size() == 4);
  server.release();
}

TEST_CASE("no callback comes inside the call that starts a request") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; });
  std::promise<std::thread::id> where;
  f.store->get(get_options({0, 0}), std::make_shared<KeepingSink>(),
               [&](base::Result<void>) { where.set_value(std::this_thread::get_id()); });
  CHECK(where.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("many requests from many threads") {
  StoreFixture f([](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, kObject)}; }, with_connections(8));
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto running = start(*f.store, "k", static_cast<Priority>((t + i) % 3));
        if (i % 3 == 0) running->handle->raise_to(Priority::kDemand);
        if (i % 7 == 0) running->handle->cancel();
        const auto code = running->wait();
        good += code == "ok" || (i % 7 == 0 && code == "cancelled");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(good == 200);
  CHECK(f.gauge("store_connections_active") == 0);
  CHECK(f.gauge("store_requests_waiting") == 0);
}

TEST_CASE("transfers that the bandwidth limit pauses lose no byte") {
  const std::string object(400000, 'b');
  S3Options options;
  options.max_bandwidth_bytes_per_s = 4000000;
  StoreFixture f([&](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, object)}; }, options);
  CHECK(f.get({0, object.size()}) == "ok");
  CHECK(f.sink->bytes() == object);
  CHECK(f.sink->in_order());
}

TEST_CASE("a reader that wants no more while its transfer is paused") {
  const std::string object(400000, 'b');
  S3Options options;
  options.max_bandwidth_bytes_per_s = 4000000;
  StoreFixture f([&](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, object)}; }, options);
  auto sink = std::make_shared<KeepingSink>();
  sink->stop_after(100000);
  std::promise<base::Result<void>> promise;
  f.store->get(get_options({0, object.size()}), sink, [&](base::Result<void> r) { promise.set_value(std::move(r)); });
  CHECK(code_of(promise.get_future().get()) == "cancelled");
  CHECK(sink->in_order());
}

TEST_CASE("under a bandwidth limit what a reader waits for does not share with read-ahead") {
  const std::string object(2000000, 'b');
  S3Options options;
  options.max_bandwidth_bytes_per_s = 4000000;
  StoreFixture f([&](size_t, const SeenRequest& r) { return Answer{ranged_answer(r, object)}; }, options);
  std::vector<store::RequestHandle> ahead;
  for (int i = 0; i < 8; ++i) {
    auto wanted = get_options({0, object.size()});
    wanted.priority = store::Priority::kReadahead;
    auto sink = std::make_shared<KeepingSink>();
    ahead.push_back(f.store->get(wanted, sink, [](const base::Result<void>&) {}));
    sink->wait_for_bytes(1);
  }
  const uint64_t before = f.counter("store_received_bytes");
  CHECK(f.get({0, 1000000}) == "ok");
  // A ninth each would have been 9 MB.
  CHECK(f.counter("store_received_bytes") - before < 3000000);
  for (const auto& request : ahead) request->cancel();
}

TEST_CASE("options that can't work are refused without a request") {
  base::SystemClock clock;
  base::Metrics metrics;
  S3Options options;
  options.no_sign_request = true;
  CHECK(make_s3_store(options, clock, metrics).error().code == base::Code::kInvalid);
  options.bucket = "b";
  options.endpoint_url = "127.0.0.1:9000";
  CHECK(make_s3_store(options, clock, metrics).error().code == base::Code::kInvalid);
  options.endpoint_url = "http://127.0.0.1:9000/";
  const auto store = make_s3_store(options, clock, metrics);
  CHECK((*store)->endpoint() == "http://127.0.0.1:9000");
  CHECK((*store)->bucket() == "b");
}

}  // namespace
}  // namespace shardfs::s3::test
