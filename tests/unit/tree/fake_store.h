// FakeStore: keys in a map, and requests that wait until the test answers them.
// It can page short, list unordered, fail by script, and send pages that never end. No bodies: get fails.
// Thread rule: thread-safe; callbacks run on the thread that calls answer_next, run_all or run_first.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/object_store.h"

namespace shardfs::tree {

class FakeStore final : public store::ObjectStore {
 public:
  struct Call {
    bool head = false;
    std::string key;  // HEAD: the key; LIST: the prefix
    uint32_t max_keys = 0;
    std::string continuation;
    store::Priority priority = store::Priority::kDemand;
    std::string start_after;
    friend bool operator==(const Call& call, const std::string& text) { return call.text() == text; }
    std::string text() const {
      return head ? "HEAD " + key
                  : "LIST " + key + " " + std::to_string(max_keys) +
                        (continuation.empty() ? "" : " after " + continuation) +
                        (start_after.empty() ? "" : " behind " + start_after);
    }
  };

  ~FakeStore() override {
    for (auto& waiting : waiting_) waiting.answer(true);
  }

  void put(const std::string& key, uint64_t size_bytes = 3, const std::string& etag = "\"v1\"") {
    std::lock_guard lock(mutex_);
    objects_[key] = store::ObjectInfo{key, size_bytes, etag, base::WallTime(std::chrono::milliseconds(1700000000123))};
  }
  void remove(const std::string& key) {
    std::lock_guard lock(mutex_);
    objects_.erase(key);
  }

  // How it answers from now on.
  uint32_t page_limit = 1000;                                        // keys and prefixes a page
  bool unordered = false;                                            // greatest first
  std::function<std::optional<base::Error>(const Call&)> fail_with;  // asked for each answer
  std::function<void(const Call&, store::ListPage&)> change_page;    // the last word on a page

  /// Answers the oldest waiting request that matches; false if there is none.
  bool run_first(const std::function<bool(const Call&)>& match) {
    Waiting taken;
    {
      std::lock_guard lock(mutex_);
      const auto place =
          std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return match(waiting.call); });
      if (place == waiting_.end()) return false;
      taken = std::move(*place);
      waiting_.erase(place);
    }
    taken.answer(false);
    return true;
  }
  bool run_first(const std::string& text) {
    return run_first([&](const Call& call) { return call.text() == text; });
  }
  /// Answers until nothing waits.
  void run_all() {
    while (run_first([](const Call&) { return true; })) {
    }
  }

  std::vector<std::string> calls() const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (const auto& call : calls_) texts.push_back(call.text());
    return texts;
  }
  std::vector<std::string> take_calls() {
    auto texts = calls();
    std::lock_guard lock(mutex_);
    calls_.clear();
    return texts;
  }
  std::vector<Call> full_calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  size_t waiting() const {
    std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  unsigned raised() const { return *raised_; }

  store::RequestHandle head(store::HeadOptions options,
                            std::function<void(base::Result<store::ObjectInfo>)> done) override {
    Call call{true, options.key, 0, {}, options.priority, {}};
    return add(call, [this, call, done = std::move(done)](bool cancelled) {
      if (auto error = error_for(call, cancelled)) return done(tl::unexpected<base::Error>(*error));
      base::Result<store::ObjectInfo> info = base::fail(base::Code::kNotFound, call.key);
      {
        std::lock_guard lock(mutex_);
        const auto object = objects_.find(call.key);
        if (object != objects_.end()) {
          info = object->second;
          info->last_modified = std::chrono::floor<std::chrono::seconds>(info->last_modified);  // as HTTP does
        }
      }
      done(std::move(info));
    });
  }

  store::RequestHandle list(store::ListOptions options,
                            std::function<void(base::Result<store::ListPage>)> done) override {
    Call call{false, options.prefix, options.max_keys, options.continuation, options.priority, options.start_after};
    return add(call, [this, call, done = std::move(done)](bool cancelled) {
      if (auto error = error_for(call, cancelled)) return done(tl::unexpected<base::Error>(*error));
      store::ListPage page = page_of(call);
      if (change_page) change_page(call, page);
      done(std::move(page));
    });
  }

  store::RequestHandle get(store::GetOptions, std::shared_ptr<store::BodySink>,
                           std::function<void(base::Result<void>)>) override {
    return nullptr;  // the tree never reads bodies
  }
  std::string endpoint() const override { return "http://127.0.0.1:1"; }
  std::string bucket() const override { return "bucket"; }

 private:
  struct Waiting {
    Call call;
    std::function<void(bool cancelled)> answer;
  };
  class Handle final : public store::Request {
   public:
    explicit Handle(std::shared_ptr<std::atomic<unsigned>> raised) : raised_(std::move(raised)) {}
    void cancel() override {}
    void raise_to(store::Priority) override { ++*raised_; }

   private:
    std::shared_ptr<std::atomic<unsigned>> raised_;
  };

  store::RequestHandle add(Call call, std::function<void(bool)> answer) {
    std::lock_guard lock(mutex_);
    calls_.push_back(call);
    waiting_.push_back(Waiting{std::move(call), std::move(answer)});
    return std::make_shared<Handle>(raised_);
  }

  std::optional<base::Error> error_for(const Call& call, bool cancelled) const {
    if (cancelled) return base::Error{base::Code::kCancelled, "the store ends"};
    return fail_with ? fail_with(call) : std::nullopt;
  }

  store::ListPage page_of(const Call& call) {
    std::lock_guard lock(mutex_);
    const size_t limit = std::min(page_limit, call.max_keys);
    return unordered ? page_backwards(call, limit) : page_in_order(call, limit);
  }

  /// The entry at `object`: its key, or the common prefix, and the object after it.
  using Place = std::map<std::string, store::ObjectInfo>::const_iterator;
  std::pair<std::string, Place> entry_at(Place object, const std::string& prefix) const {
    const size_t slash = object->first.find('/', prefix.size());
    if (slash == std::string::npos) return {object->first, std::next(object)};
    const std::string common = object->first.substr(0, slash);
    return {common + "/", objects_.lower_bound(common + static_cast<char>('/' + 1))};
  }
  bool below(Place object, const std::string& prefix) const {
    return object != objects_.end() && object->first.starts_with(prefix);
  }
  void add_entry(store::ListPage& page, const std::string& entry, const std::string& prefix) const {
    page.continuation = entry;
    if (entry.size() > prefix.size() && entry.back() == '/') {
      page.prefixes.push_back(entry);
    } else {
      page.objects.push_back(objects_.at(entry));
    }
  }

  store::ListPage page_in_order(const Call& call, size_t limit) const {
    store::ListPage page;
    Place object = objects_.lower_bound(call.key);
    if (!call.start_after.empty()) object = objects_.upper_bound(std::max(call.key, call.start_after));
    if (!call.continuation.empty()) object = objects_.lower_bound(call.continuation);
    while (below(object, call.key)) {
      auto [entry, next] = entry_at(object, call.key);
      object = next;
      if (entry == call.continuation) continue;
      if (page.objects.size() + page.prefixes.size() == limit) {
        page.truncated = true;
        return page;
      }
      add_entry(page, entry, call.key);
    }
    page.continuation.clear();
    return page;
  }

  store::ListPage page_backwards(const Call& call, size_t limit) const {
    std::vector<std::string> order;
    for (Place object = objects_.lower_bound(call.key); below(object, call.key);) {
      auto [entry, next] = entry_at(object, call.key);
      order.insert(order.begin(), entry);
      object = next;
    }
    auto at = order.begin();
    if (!call.continuation.empty()) at = std::next(std::find(order.begin(), order.end(), call.continuation));
    store::ListPage page;
    for (size_t i = 0; i < limit && at != order.end(); ++i, ++at) add_entry(page, *at, call.key);
    page.truncated = at != order.end();
    if (!page.truncated) page.continuation.clear();
    return page;
  }

  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, store::ObjectInfo> objects_;
  std::vector<Call> calls_;
  std::deque<Waiting> waiting_;
  const std::shared_ptr<std::atomic<unsigned>> raised_ = std::make_shared<std::atomic<unsigned>>(0);
};

}  // namespace shardfs::tree
