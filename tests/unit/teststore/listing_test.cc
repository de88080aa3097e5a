#include "teststore/listing.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "raw_client.h"
#include "teststore/teststore.h"

namespace shardfs::teststore {
namespace {

// What a complete listing has to hold, the slow way.
struct Model {
  std::vector<std::string> keys;
  std::vector<std::string> prefixes;
};

Model model(const std::set<std::string>& all, const std::string& prefix, const std::string& delimiter,
            const std::string& after) {
  Model out;
  std::set<std::string> prefixes;
  for (const std::string& key : all) {
    if (!key.starts_with(prefix) || key <= after) continue;
    const size_t at = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    if (at == std::string::npos) {
      out.keys.push_back(key);
    } else {
      prefixes.insert(key.substr(0, at + delimiter.size()));
    }
  }
  out.prefixes.assign(prefixes.begin(), prefixes.end());
  return out;
}

std::set<std::string> random_keys(std::mt19937& random, size_t count) {
  const std::string letters("ab/\x01\xff", 5);
  std::set<std::string> keys;
  while (keys.size() < count) {
    std::string key;
    for (size_t n = 1 + random() % 7; n > 0; --n) key += letters[random() % letters.size()];
    keys.insert(key);
  }
  return keys;
}

TEST_CASE("pages of every size add up to the whole listing, in both versions") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Objects objects;
    const auto keys = random_keys(random, 120);
    for (const std::string& key : keys) objects.put("b", key, key);
    const std::vector<std::string> prefixes = {"", "a", "a/", "b/a", "\xff", "/", "none"};
    for (const std::string& prefix : prefixes) {
      for (const std::string delimiter : {"", "/", "a", "/a"}) {
        const uint32_t max_keys = 1 + static_cast<uint32_t>(random() % 13);
        for (const bool v2 : {true, false}) {
          ListQuery query;
          query.v2 = v2;
          query.prefix = prefix;
          query.delimiter = delimiter;
          query.max_keys = max_keys;
          if (v2 && random() % 2 == 0) query.start_after = prefix + "a";
          const Model expected = model(keys, prefix, delimiter, query.start_after);
          Model got;
          for (bool more = true; more;) {
            Page page;
            objects.with_bucket("b", [&](const Bucket& bucket) { page = list_page(bucket, query); });
            REQUIRE(page.objects.size() + page.prefixes.size() <= max_keys);
            more = page.truncated;
            REQUIRE((!more || page.objects.size() + page.prefixes.size() == max_keys));
            for (const auto& [key, object] : page.objects) got.keys.push_back(key);
            got.prefixes.insert(got.prefixes.end(), page.prefixes.begin(), page.prefixes.end());
            (v2 ? query.continuation : query.start_after) = page.last;
          }
          REQUIRE(got.keys == expected.keys);
          REQUIRE(got.prefixes == expected.prefixes);
        }
      }
    }
  }
}

struct Store {
  Store() {
    Options options;
    options.require_signature = false;
    server = std::make_unique<Server>(options);
    REQUIRE(server->start());
    server->make_bucket("b");
  }
  RawReply ask(const std::string& line) { return RawClient(server->port()).ask(line); }
  std::unique_ptr<Server> server;
};

TEST_CASE("over the wire, V2 pages carry tokens, counts and the asked-for parameters") {
  Store store;
  for (int i = 0; i < 25; ++i) store.server->put("b", "d/" + std::to_string(100 + i), "x");
  store.server->put("b", "d/sub/one", "x");
  std::vector<std::string> keys;
  std::string token;
  size_t pages = 0;
  do {
    const RawReply reply = store.ask("GET /b?list-type=2&prefix=d%2F&delimiter=%2F&max-keys=7" +
                                     (token.empty() ? "" : "&continuation-token=" + percent_encode(token, false)));
    REQUIRE(reply.status == 200);
    ++pages;
    const auto page = elements(reply.body, "Key");
    const auto prefixes = elements(reply.body, "CommonPrefixes");
    CHECK(elements(reply.body, "KeyCount").at(0) == std::to_string(page.size() + prefixes.size()));
    CHECK(elements(reply.body, "MaxKeys").at(0) == "7");
    keys.insert(keys.end(), page.begin(), page.end());
    const auto next = elements(reply.body, "NextContinuationToken");
    CHECK(next.empty() == (elements(reply.body, "IsTruncated").at(0) == "false"));
    token = next.empty() ? "" : next.at(0);
    CHECK(token.find("d/") == std::string::npos);
  } while (!token.empty());
  CHECK(pages == 4);
  CHECK(keys.size() == 25);
  CHECK(store.server->stats().of(Kind::kList) == 4);
}

TEST_CASE("encoding-type=url encodes as S3 does; without it, XML escapes") {
  Store store;
  const std::string key = "a b+c%&<\x01\xc3\xbc/x";
  store.server->put("b", key, "x");
  RawReply reply = store.ask("GET /b?list-type=2&encoding-type=url");
  CHECK(elements(reply.body, "Key").at(0) == "a+b%2Bc%25%26%3C%01%C3%BC/x");
  CHECK(percent_decode(elements(reply.body, "Key").at(0), true) == key);
  CHECK(elements(reply.body, "EncodingType").at(0) == "url");
  reply = store.ask("GET /b?list-type=2");
  CHECK(elements(reply.body, "Key").at(0) == key);
  CHECK(elements(reply.body, "EncodingType").empty());
}

TEST_CASE("V1 gives NextMarker only with a delimiter") {
  Store store;
  for (const char* key : {"a/1", "a/2", "b/1", "c"}) store.server->put("b", key, "x");
  RawReply reply = store.ask("GET /b?max-keys=2");
  CHECK(elements(reply.body, "IsTruncated").at(0) == "true");
  CHECK(elements(reply.body, "NextMarker").empty());
  reply = store.ask("GET /b?max-keys=1&delimiter=/");
  CHECK(elements(reply.body, "NextMarker").at(0) == "a/");
  reply = store.ask("GET /b?max-keys=1&delimiter=/&marker=a/");
  CHECK(elements(reply.body, "NextMarker").at(0) == "b/");
}

TEST_CASE("the server's page limit, bad arguments and unknown buckets") {
  Options options;
  options.require_signature = false;
  options.max_keys = 2;
  Server server(options);
  REQUIRE(server.start());
  for (const char* key : {"1", "2", "3"}) server.put("b", key, "x");
  RawClient client(server.port());
  CHECK(elements(client.ask("GET /b?list-type=2&max-keys=1000").body, "KeyCount").at(0) == "2");
  CHECK(elements(client.ask("GET /b?list-type=2&max-keys=0").body, "IsTruncated").at(0) == "false");
  CHECK(client.ask("GET /b?list-type=2&max-keys=x").status == 400);
  CHECK(client.ask("GET /b?list-type=2&continuation-token=no").status == 400);
  const RawReply none = client.ask("GET /other?list-type=2");
  CHECK(none.status == 404);
  CHECK(elements(none.body, "Code").at(0) == "NoSuchBucket");
}

}  // namespace
}  // namespace shardfs::teststore
