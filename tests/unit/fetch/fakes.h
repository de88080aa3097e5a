// Doubles for fetch: a store whose answers the test gives by hand, an executor that runs when told, a cache in memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/executor.h"
#include "cache/cache.h"
#include "store/object_store.h"

namespace shardfs::test {

inline std::byte byte_at(uint64_t offset) { return static_cast<std::byte>((offset * 2654435761u >> 13) & 0xff); }

class ManualStore final : public store::ObjectStore {
 public:
  struct Get final : store::Request {
    store::GetOptions options;
    std::shared_ptr<store::BodySink> sink;
    std::function<void(base::Result<void>)> done;
    uint64_t sent = 0;
    std::atomic<bool> cancelled{false};
    bool raised = false;
    bool ended = false;
    void cancel() override { cancelled = true; }
    void raise_to(store::Priority) override { raised = true; }
    base::ByteRange range() const { return options.range; }
    /// Hands over the next bytes. False: the sink wants no more.
    bool send(uint64_t bytes) {
      std::vector<std::byte> data(bytes);
      for (uint64_t i = 0; i < bytes; ++i) data[i] = byte_at(options.range.begin + sent + i);
      const uint64_t at = options.range.begin + sent;
      sent += bytes;
      return sink->on_bytes(at, data);
    }
    void end(base::Result<void> result = {}) {
      ended = true;
      auto callback = std::move(done);
      sink.reset();
      callback(std::move(result));
    }
    void finish() {
      send(options.range.size() - sent);
      end();
    }
  };

  store::RequestHandle head(store::HeadOptions, std::function<void(base::Result<store::ObjectInfo>)>) override {
    return nullptr;
  }
  store::RequestHandle list(store::ListOptions, std::function<void(base::Result<store::ListPage>)>) override {
    return nullptr;
  }
  store::RequestHandle get(store::GetOptions options, std::shared_ptr<store::BodySink> sink,
                           std::function<void(base::Result<void>)> done) override {
    auto request = std::make_shared<Get>();
    request->options = std::move(options);
    request->sink = std::move(sink);
    request->done = std::move(done);
    std::lock_guard lock(mutex);
    gets.push_back(request);
    arrived.notify_all();
    return request;
  }
  unsigned connection_limit() const override { return limit; }
  std::string endpoint() const override { return "http://127.0.0.1:1"; }
  std::string bucket() const override { return "bucket"; }

  /// The requests that have not ended, oldest first.
  std::vector<std::shared_ptr<Get>> open() {
    std::lock_guard lock(mutex);
    std::vector<std::shared_ptr<Get>> found;
    for (const auto& get : gets)
      if (!get->ended) found.push_back(get);
    return found;
  }
  /// Ends requests, also those that follow from it, until none is open.
  void finish_all() {
    for (auto found = open(); !found.empty(); found = open())
      for (const auto& get : found) get->cancelled ? get->end(base::fail(base::Code::kCancelled, "")) : get->finish();
  }
  uint64_t asked_bytes() {
    std::lock_guard lock(mutex);
    uint64_t bytes = 0;
    for (const auto& get : gets) bytes += get->options.range.size();
    return bytes;
  }
  void wait_for_gets(size_t count) {
    std::unique_lock lock(mutex);
    arrived.wait(lock, [&] { return gets.size() >= count; });
  }

  /// Those of one object that have not ended.
  std::vector<std::shared_ptr<Get>> open_of(const std::string& key) {
    auto found = open();
    std::erase_if(found, [&](const auto& get) { return get->options.key != key; });
    return found;
  }

  unsigned limit = 1000;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::shared_ptr<Get>> gets;
};

class ManualExecutor final : public base::Executor {
 public:
  void post(base::Task task) override {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  /// Runs what is queued, also what that queues. Returns how many tasks ran.
  size_t run() {
    size_t ran = 0;
    for (;; ++ran) {
      base::Task task;
      {
        std::lock_guard lock(mutex_);
        if (queue_.empty()) return ran;
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      task();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<base::Task> queue_;
};

class FakeCacheFile final : public cache::CacheFile {
 public:
  explicit FakeCacheFile(uint64_t size) : size_(size), data_(size) {}
  uint64_t size_bytes() const override { return size_; }
  uint32_t block_count() const override { return (size_ + cache::kBlockBytes - 1) / cache::kBlockBytes; }
  bool dead() const override { return dead_flag; }
  bool has_block(uint32_t block) const override {
    std::lock_guard lock(mutex);
    return blocks.count(block) > 0;
  }
  uint64_t resident_bytes() const override {
    std::lock_guard lock(mutex);
    uint64_t bytes = 0;
    for (uint32_t block : blocks) bytes += std::min(cache::kBlockBytes, size_ - block * cache::kBlockBytes);
    return bytes;
  }
  bool complete() const override { return complete_flag; }
  bool verified() const override { return complete_flag; }
  base::Result<void> read(base::ByteRange range, std::span<std::byte> into) override {
    std::lock_guard lock(mutex);
    if (read_error) {
      const auto error = *read_error;
      if (error == base::Code::kIntegrity)
        for (uint32_t b = range.begin / cache::kBlockBytes; b <= (range.end - 1) / cache::kBlockBytes; ++b)
          blocks.erase(b);
      complete_flag = false;
      read_error.reset();
      return base::fail(error, "bad");
    }
    std::memcpy(into.data(), data_.data() + range.begin, range.size());
    ++reads;
    return {};
  }
  cache::FillAnswer begin_fill(uint32_t block) override {
    std::lock_guard lock(mutex);
    if (blocks.count(block)) return cache::FillAnswer::kResident;
    if (refuse) return cache::FillAnswer::kRefused;
    if (busy.count(block) || filling.count(block)) return cache::FillAnswer::kBusy;
    filling.insert(block);
    return cache::FillAnswer::kGranted;
  }
  base::Result<void> write_block(uint32_t block, std::span<const std::byte> data) override {
    std::lock_guard lock(mutex);
    if (!filling.erase(block)) return base::fail(base::Code::kInvalid, "not granted");
    if (write_error) return base::fail(*write_error, "disk");
    std::memcpy(data_.data() + block * cache::kBlockBytes, data.data(), data.size());
    blocks.insert(block);
    ++writes;
    return {};
  }
  void abandon_fill(uint32_t block) override {
    std::lock_guard lock(mutex);
    filling.erase(block);
    ++abandoned;
  }
  base::Result<bool> finish() override {
    complete_flag = true;
    return true;
  }
  std::unique_ptr<cache::Pin> pin() override { return std::make_unique<cache::Pin>(); }
  base::Result<base::UniqueFd> backing_descriptor() override { return base::UniqueFd(); }
  void fill_elsewhere(uint32_t block) {
    std::lock_guard lock(mutex);
    busy.erase(block);
    for (uint64_t i = block * cache::kBlockBytes; i < std::min(size_, (block + 1) * cache::kBlockBytes); ++i)
      data_[i] = byte_at(i);
    blocks.insert(block);
  }

  mutable std::mutex mutex;
  std::set<uint32_t> blocks, filling, busy;
  std::atomic<bool> dead_flag{false}, complete_flag{false};
  bool refuse = false;
  std::optional<base::Code> write_error, read_error;
  int reads = 0, writes = 0, abandoned = 0;

 private:
  const uint64_t size_;
  std::vector<std::byte> data_;
};

class FakeCache final : public cache::Cache {
 public:
  std::shared_ptr<cache::CacheFile> open_file(const store::ObjectId& id, uint64_t size) override {
    if (refuse) return nullptr;
    auto& known = files[id.key];
    if (!known || known->dead()) known = std::make_shared<FakeCacheFile>(size);
    file = known;
    return known;
  }
  std::shared_ptr<cache::CacheFile> find_file(const store::ObjectId& id, uint64_t) override {
    ++looked_up;
    return files[id.key];
  }
  bool has_file(const store::ObjectId& id, uint64_t) override { return files[id.key] != nullptr; }
  void touch(const store::ObjectId&) override {}
  cache::CacheStats stats() const override { return {}; }
  void flush() override {}

  bool refuse = false;
  int looked_up = 0;
  std::map<std::string, std::shared_ptr<FakeCacheFile>> files;
  std::shared_ptr<FakeCacheFile> file;  // the one opened last
};

}  // namespace shardfs::test
