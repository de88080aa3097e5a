#include "store/manifest_store.h"

#include <doctest/doctest.h>

#include <future>

namespace shardfs::store {
namespace {

using base::Code;
using base::Result;

/// Nothing but bodies may be asked of it.
struct Behind final : ObjectStore {
  RequestHandle head(HeadOptions, std::function<void(Result<ObjectInfo>)>) override {
    FAIL("head");
    return nullptr;
  }
  RequestHandle list(ListOptions, std::function<void(Result<ListPage>)>) override {
    FAIL("list");
    return nullptr;
  }
  RequestHandle get(GetOptions options, std::shared_ptr<BodySink>, std::function<void(Result<void>)> done) override {
    asked = options.key;
    done({});
    return nullptr;
  }
  std::string endpoint() const override { return "http://127.0.0.1:1"; }
  std::string bucket() const override { return "bucket"; }
  std::string asked;
};

struct Fixture {
  explicit Fixture(const std::vector<std::string>& keys) {
    std::vector<ObjectInfo> objects;
    for (const auto& key : keys) objects.push_back({key, 7, "\"e\"", {}, {}, false});
    auto made = std::make_unique<Behind>();
    behind = made.get();
    store = make_manifest_store(std::move(objects), std::move(made), pool);
  }
  ListPage list(const std::string& prefix, uint32_t max_keys = 1000, const std::string& continuation = "",
                const std::string& start_after = "") {
    ListOptions options;
    options.prefix = prefix;
    options.delimiter = "/";
    options.max_keys = max_keys;
    options.continuation = continuation;
    options.start_after = start_after;
    std::promise<ListPage> answer;
    store->list(options, [&](Result<ListPage> page) { answer.set_value(std::move(*page)); });
    return answer.get_future().get();
  }
  base::ThreadPool pool{"test", 2};
  Behind* behind;
  std::unique_ptr<ObjectStore> store;
};

using Texts = std::vector<std::string>;

Texts texts(const ListPage& page) {
  Texts out;
  for (const auto& object : page.objects) out.push_back(object.key);
  out.insert(out.end(), page.prefixes.begin(), page.prefixes.end());
  return out;
}

TEST_CASE("a list of keys is a tree of prefixes, in pages") {
  Fixture fixture({"a", "b/1", "b/2", "b0", "c/d/e", "z"});
  CHECK(texts(fixture.list("")) == Texts{"a", "b0", "z", "b/", "c/"});
  CHECK(texts(fixture.list("b/")) == Texts{"b/1", "b/2"});
  CHECK(texts(fixture.list("c/")) == Texts{"c/d/"});
  CHECK(texts(fixture.list("nothing/")).empty());
  CHECK(texts(fixture.list("", 1000, "", "b/2")) == Texts{"b0", "z", "c/"});
  auto page = fixture.list("", 2);
  CHECK(texts(page) == Texts{"a", "b/"});
  REQUIRE(page.truncated);
  page = fixture.list("", 2, page.continuation);
  CHECK(texts(page) == Texts{"b0", "c/"});
  page = fixture.list("", 2, page.continuation);
  CHECK(texts(page) == Texts{"z"});
  CHECK_FALSE(page.truncated);
}

TEST_CASE("what is not on the list is not there, and bodies come from the store") {
  Fixture fixture({"a"});
  const auto head = [&](const std::string& key) {
    std::promise<Result<ObjectInfo>> answer;
    HeadOptions options;
    options.key = key;
    fixture.store->head(options, [&](Result<ObjectInfo> info) { answer.set_value(std::move(info)); });
    return answer.get_future().get();
  };
  CHECK(head("a")->size_bytes == 7);
  CHECK(head("b").error().code == Code::kNotFound);
  GetOptions options;
  options.key = "a";
  bool done = false;
  fixture.store->get(options, nullptr, [&](Result<void>) { done = true; });
  CHECK(done);
  CHECK(fixture.behind->asked == "a");
  CHECK(fixture.store->bucket() == "bucket");
}

}  // namespace
}  // namespace shardfs::store
