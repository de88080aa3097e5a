#include "store/manifest_store.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace shardfs::store {
namespace {

using base::Code;
using base::fail;
using base::Result;

class DoneRequest final : public Request {
 public:
  void cancel() override {}
  void raise_to(Priority) override {}
};

class ManifestStore final : public ObjectStore {
 public:
  ManifestStore(std::vector<ObjectInfo> objects, std::unique_ptr<ObjectStore> behind, base::Executor& executor)
      : objects_(std::move(objects)), behind_(std::move(behind)), executor_(executor) {}

  ~ManifestStore() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return posted_ == 0; });
  }

  RequestHandle head(HeadOptions options, std::function<void(Result<ObjectInfo>)> done) override {
    return post([this, key = std::move(options.key), done = std::move(done)] {
      const auto place = at_or_after(key);
      if (place != objects_.end() && place->key == key) return done(*place);
      done(fail(Code::kNotFound, "\"" + key + "\" is not in the manifest"));
    });
  }

  RequestHandle list(ListOptions options, std::function<void(Result<ListPage>)> done) override {
    return post([this, options = std::move(options), done = std::move(done)] { done(page_of(options)); });
  }

  RequestHandle get(GetOptions options, std::shared_ptr<BodySink> sink,
                    std::function<void(Result<void>)> done) override {
    return behind_->get(std::move(options), std::move(sink), std::move(done));
  }
  unsigned connection_limit() const override { return behind_->connection_limit(); }
  std::string endpoint() const override { return behind_->endpoint(); }
  std::string bucket() const override { return behind_->bucket(); }

 private:
  using Place = std::vector<ObjectInfo>::const_iterator;

  Place at_or_after(const std::string& key) const {
    return std::lower_bound(objects_.begin(), objects_.end(), key,
                            [](const ObjectInfo& object, const std::string& wanted) { return object.key < wanted; });
  }

  /// Its continuation is the key at which the next page begins.
  ListPage page_of(const ListOptions& options) const {
    ListPage page;
    Place at = at_or_after(std::max(options.prefix, options.continuation));
    while (options.continuation.empty() && !options.start_after.empty() && at != objects_.end() &&
           at->key <= options.start_after) {
      at = at_or_after(options.start_after + '\0');
    }
    while (at != objects_.end() && at->key.starts_with(options.prefix)) {
      if (page.objects.size() + page.prefixes.size() >= std::max(1u, options.max_keys)) {
        page.truncated = true;
        page.continuation = at->key;
        break;
      }
      const size_t slash =
          options.delimiter.empty() ? std::string::npos : at->key.find(options.delimiter, options.prefix.size());
      if (slash == std::string::npos) {
        page.objects.push_back(*at++);
        continue;
      }
      std::string common = at->key.substr(0, slash + options.delimiter.size());
      // The first key that does not begin with it.
      at = std::partition_point(at, objects_.end(), [&](const ObjectInfo& object) {
        return object.key.compare(0, common.size(), common) <= 0;
      });
      page.prefixes.push_back(std::move(common));
    }
    return page;
  }

  RequestHandle post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      ++posted_;
    }
    executor_.post([this, task = std::move(task)] {
      task();
      const std::lock_guard lock(mutex_);
      if (--posted_ == 0) idle_.notify_all();
    });
    return std::make_shared<DoneRequest>();
  }

  const std::vector<ObjectInfo> objects_;
  const std::unique_ptr<ObjectStore> behind_;
  base::Executor& executor_;
  std::mutex mutex_;  // guards posted_
  std::condition_variable idle_;
  size_t posted_ = 0;
};

}  // namespace

std::unique_ptr<ObjectStore> make_manifest_store(std::vector<ObjectInfo> objects, std::unique_ptr<ObjectStore> behind,
                                                 base::Executor& executor) {
  return std::make_unique<ManifestStore>(std::move(objects), std::move(behind), executor);
}

}  // namespace shardfs::store
