// Fakes of what the file system stands on: Tree, Fetcher with SourceFile, CacheFile, Kernel. All in memory; answers can
// be held back, and what was called is counted.
// Thread rule: thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "fetch/fetcher.h"
#include "fs/file_system.h"
#include "tree/tree.h"

namespace shardfs::fs::testing {

using base::Code;

class FakeTree final : public tree::Tree {
 public:
  FakeTree() { add(tree::kRootNode, 0, "", tree::Kind::kDirectory, 0); }

  NodeId add(NodeId id, NodeId parent, std::string name, tree::Kind kind, uint64_t size_bytes) {
    std::lock_guard lock(mutex_);
    tree::Node node;
    node.id = id;
    node.st_ino = 1000 + id;
    node.kind = kind;
    node.parent = parent;
    node.name = name;
    node.info.key = name;
    node.info.size_bytes = size_bytes;
    node.info.etag = "\"" + name + "-1\"";
    node.info.last_modified = base::WallTime(std::chrono::milliseconds(1700000000250));
    node.valid_for = std::chrono::milliseconds(60000);
    nodes_[id] = node;
    current_[{parent, name}] = id;
    return id;
  }
  tree::Node& node(NodeId id) { return nodes_.at(id); }

  void start(std::chrono::milliseconds, std::function<void(base::Result<void>)> done) override { done({}); }
  void lookup(NodeId parent, std::string_view name, NodeDone done) override {
    answer([this, parent, name = std::string(name), done] {
      base::Result<tree::Node> found = [&]() -> base::Result<tree::Node> {
        std::lock_guard lock(mutex_);
        if (lookup_error) return tl::unexpected(*lookup_error);
        const auto place = current_.find({parent, name});
        if (place == current_.end()) return base::fail(Code::kNotFound, name);
        ++counts_[place->second];
        return nodes_.at(place->second);
      }();
      done(found);
    });
  }
  void getattr(NodeId id, NodeDone done) override {
    answer([this, id, done] {
      if (getattr_error) return done(tl::unexpected(*getattr_error));
      done(find(id));
    });
  }
  void forget(NodeId id, uint64_t count) override {
    std::lock_guard lock(mutex_);
    counts_[id] -= static_cast<int64_t>(count);
  }
  base::Result<tree::Node> find(NodeId id) const override {
    std::lock_guard lock(mutex_);
    const auto place = nodes_.find(id);
    if (place == nodes_.end()) return base::fail(Code::kNotFound, "node");
    return place->second;
  }
  void list(NodeId directory, std::function<void(base::Result<std::shared_ptr<const tree::Listing>>)> done) override {
    answer([this, directory, done] {
      const auto node = find(directory);
      if (list_error) return done(tl::unexpected(*list_error));
      if (node && node->kind == tree::Kind::kFile) return done(base::fail(Code::kNotDirectory, "file"));
      std::shared_ptr<const tree::Listing> shown;
      {
        std::lock_guard lock(mutex_);
        shown = listing;
      }
      done(shown);
    });
  }
  base::Result<tree::Node> enter(NodeId directory, const tree::ListedName& listed) override {
    std::lock_guard lock(mutex_);
    const auto place = current_.find({directory, listed.name});
    if (place == current_.end()) return base::fail(Code::kNotFound, listed.name);
    ++counts_[place->second];
    return nodes_.at(place->second);
  }
  std::shared_ptr<const tree::Listing> known_listing(std::string_view directory) override {
    std::lock_guard lock(mutex_);
    const auto place = known_.find(std::string(directory));
    return place == known_.end() ? nullptr : place->second;
  }
  std::optional<store::ObjectInfo> known_file(std::string_view directory, const tree::ListedName& listed) override {
    const std::string path = std::string(directory) + (directory.empty() ? "" : "/") + listed.name;
    std::lock_guard lock(mutex_);
    if (gone.count(path) > 0 || listed.kind != tree::Kind::kFile) return std::nullopt;
    return store::ObjectInfo{path, listed.size_bytes, listed.etag, {}, {}, false};
  }
  void list_unasked(std::string_view directory,
                    std::function<void(base::Result<std::shared_ptr<const tree::Listing>>)> done) override {
    const std::string path(directory);
    {
      std::lock_guard lock(mutex_);
      const auto place = unlisted.find(path);
      if (place != unlisted.end()) {
        asked.push_back(path);
        known_[path] = place->second;
        unlisted.erase(place);
      }
    }
    answer([this, path, done] {
      auto known = known_listing(path);
      if (known) return done(std::move(known));
      done(base::fail(Code::kNotFound, path));
    });
  }
  /// A directory and its files, which the tree knows of. A size of 0 is a directory's.
  void know(const std::string& directory, std::vector<std::pair<std::string, uint64_t>> names) {
    std::lock_guard lock(mutex_);
    known_[directory] = listing_of(std::move(names));
  }
  static std::shared_ptr<const tree::Listing> listing_of(std::vector<std::pair<std::string, uint64_t>> names) {
    auto made = std::make_shared<tree::Listing>();
    for (const auto& [name, size] : names) {
      made->names.push_back({name, size == 0 ? tree::Kind::kDirectory : tree::Kind::kFile, size, {}, "v1"});
    }
    return made;
  }
  void retire(NodeId id) override {
    std::lock_guard lock(mutex_);
    retired.push_back(id);
    tree::Node fresh = nodes_.at(id);
    fresh.id = id + 1000;
    nodes_[fresh.id] = fresh;
    current_[{fresh.parent, fresh.name}] = fresh.id;
  }
  std::vector<KernelName> refresh(std::string_view path) override {
    refreshed.emplace_back(path);
    return kernel_names;
  }
  void expire(NodeId id) override {
    std::lock_guard lock(mutex_);
    expired.push_back(id);
  }
  void on_file_found(std::function<void(const store::ObjectInfo&)>) override {}
  size_t node_count() const override { return nodes_.size(); }

  int64_t count(NodeId id) {
    std::lock_guard lock(mutex_);
    return counts_[id];
  }
  /// Answers held back since hold was set.
  void release_all() {
    std::deque<std::function<void()>> now;
    {
      std::lock_guard lock(mutex_);
      now.swap(held_);
    }
    for (auto& answer : now) answer();
  }
  size_t held() {
    std::lock_guard lock(mutex_);
    return held_.size();
  }

  std::atomic<bool> hold{false};
  std::optional<base::Error> lookup_error, getattr_error, list_error;
  std::shared_ptr<tree::Listing> listing = std::make_shared<tree::Listing>();
  std::vector<NodeId> retired, expired;
  std::vector<std::string> refreshed;
  std::vector<KernelName> kernel_names;                                  // what refresh answers
  std::map<std::string, std::shared_ptr<const tree::Listing>> unlisted;  // what list_unasked finds
  std::vector<std::string> asked;                                        // by it
  std::set<std::string> gone;                                            // paths of files that are known to be deleted

 private:
  void answer(std::function<void()> task) {
    if (!hold) return task();
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(task));
  }
  mutable std::mutex mutex_;
  std::map<NodeId, tree::Node> nodes_;
  std::map<std::pair<NodeId, std::string>, NodeId> current_;
  std::map<NodeId, int64_t> counts_;
  std::map<std::string, std::shared_ptr<const tree::Listing>> known_;
  std::deque<std::function<void()>> held_;
};

/// Runs each task before post returns.
class InlineExecutor final : public base::Executor {
 public:
  void post(base::Task task) override { task(); }
};

/// A file whose byte i is i * 7 mod 251.
inline char byte_at(uint64_t i) { return static_cast<char>(i * 7 % 251); }

class FakeCacheFile final : public cache::CacheFile {
 public:
  explicit FakeCacheFile(uint64_t size) : size_(size) {}
  uint64_t size_bytes() const override { return size_; }
  uint32_t block_count() const override { return 1; }
  bool dead() const override { return false; }
  bool has_block(uint32_t) const override { return true; }
  uint64_t resident_bytes() const override { return size_; }
  bool complete() const override { return true; }
  bool verified() const override { return true; }
  base::Result<void> read(base::ByteRange, std::span<std::byte>) override { return {}; }
  cache::FillAnswer begin_fill(uint32_t) override { return cache::FillAnswer::kResident; }
  base::Result<void> write_block(uint32_t, std::span<const std::byte>) override { return {}; }
  void abandon_fill(uint32_t) override {}
  base::Result<bool> finish() override { return true; }
  std::unique_ptr<cache::Pin> pin() override { return std::make_unique<cache::Pin>(); }
  base::Result<base::UniqueFd> backing_descriptor() override {
    base::UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return fd;
  }

 private:
  const uint64_t size_;
};

class FakeParkedRead final : public fetch::ParkedRead {
 public:
  FakeParkedRead(base::ByteRange range, fetch::ReadDone done) : range_(range), done_(std::move(done)) {}
  void cancel() override {
    if (!answered_.exchange(true)) done_(base::fail(Code::kCancelled, "cancelled"));
  }
  void answer() {
    if (answered_.exchange(true)) return;
    std::string bytes;
    for (uint64_t i = range_.begin; i < range_.end; ++i) bytes += byte_at(i);
    const iovec pieces[2] = {{bytes.data(), bytes.size() / 2},
                             {bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2}};
    done_(fetch::Pieces(pieces));
  }
  void fail(base::Error error) {
    if (!answered_.exchange(true)) done_(tl::unexpected(std::move(error)));
  }

 private:
  const base::ByteRange range_;
  const fetch::ReadDone done_;
  std::atomic<bool> answered_{false};
};

struct Pins {
  std::atomic<int> held{0};
};
class FakePin final : public cache::Pin {
 public:
  explicit FakePin(Pins& pins) : pins_(pins) { ++pins_.held; }
  ~FakePin() override { --pins_.held; }

 private:
  Pins& pins_;
};

class FakeSource final : public fetch::SourceFile {
 public:
  FakeSource(store::ObjectInfo info, Pins& pins) : info_(std::move(info)), pins_(pins) {}
  const store::ObjectInfo& info() const override { return info_; }
  void opened(uint32_t) override { ++open_handles; }
  void closed() override { --open_handles; }
  std::shared_ptr<fetch::ParkedRead> read(base::ByteRange range, uint32_t, fetch::ReadDone done) override {
    ++reads;
    if (read_error) {
      done(tl::unexpected(*read_error));
      return nullptr;
    }
    auto read = std::make_shared<FakeParkedRead>(range, std::move(done));
    if (!hold) {
      read->answer();
      return nullptr;
    }
    std::lock_guard lock(mutex_);
    parked.push_back(read);
    return read;
  }
  void prefetch(base::ByteRange range, fetch::Cause cause, std::function<void()> done) override {
    std::lock_guard lock(mutex_);
    prefetches.push_back({range, cause, std::move(done)});
  }
  void cancel_prefetch() override { ++cancelled_prefetches; }
  Backing backing() override {
    if (const auto hook = in_backing) hook();
    if (!complete) return {};
    return {std::make_shared<FakeCacheFile>(info_.size_bytes + wrong_size), std::make_unique<FakePin>(pins_)};
  }
  uint64_t cached_bytes() override { return cached; }
  bool seems_cached() override { return cached >= info_.size_bytes; }
  std::string state() override { return "complete"; }

  std::atomic<bool> complete{false}, hold{false};
  std::atomic<int> open_handles{0}, reads{0};
  std::atomic<uint64_t> wrong_size{0}, cached{42};
  std::optional<base::Error> read_error;
  std::function<void()> in_backing;
  std::vector<std::shared_ptr<FakeParkedRead>> parked;
  struct Prefetch {
    base::ByteRange range;
    fetch::Cause cause;
    std::function<void()> done;  // called by the test
  };
  std::vector<Prefetch> prefetches;
  std::atomic<int> cancelled_prefetches{0};

 private:
  const store::ObjectInfo info_;
  Pins& pins_;
  std::mutex mutex_;
};

class FakeFetcher final : public fetch::Fetcher {
 public:
  std::shared_ptr<fetch::SourceFile> open(const store::ObjectInfo& info) override { return source(info); }
  std::shared_ptr<FakeSource> source(const store::ObjectInfo& info) {
    std::lock_guard lock(mutex_);
    ++opens;
    auto& place = sources_[info.key + store::version_of(info)];
    if (!place) place = std::make_shared<FakeSource>(info, pins);
    return place;
  }
  std::vector<fetch::FileState> in_use(size_t) override { return {}; }
  void release_idle() override {}
  void on_complete(std::function<void(const store::ObjectInfo&)> hook) override { complete = std::move(hook); }
  void on_scan(std::function<void(const store::ObjectInfo&)> hook) override { scan = std::move(hook); }
  void on_changed(std::function<void(const store::ObjectInfo&)> hook) override { changed = std::move(hook); }
  void shut_down() override {}

  Pins pins;
  std::atomic<int> opens{0};
  std::function<void(const store::ObjectInfo&)> complete, scan, changed;

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<FakeSource>> sources_;
};

/// Gives out ids, and notes which are registered.
class FakeKernel final : public Kernel {
 public:
  bool passthrough() const override { return works; }
  base::Result<int> open_backing(int) override {
    std::lock_guard lock(mutex_);
    if (refuse) return base::fail(Code::kUnsupported, "ELOOP");
    ids.insert(++last_);
    return last_;
  }
  void close_backing(int id) override {
    std::lock_guard lock(mutex_);
    if (ids.erase(id) == 0) ++wrong_closes;
  }
  void expire_name(NodeId parent, std::string_view name) override {
    std::lock_guard lock(mutex_);
    expired.emplace_back(parent, name);
  }
  size_t open_ids() {
    std::lock_guard lock(mutex_);
    return ids.size();
  }

  std::atomic<bool> works{true}, refuse{false};
  std::set<int> ids;
  int wrong_closes = 0;
  std::vector<std::pair<NodeId, std::string>> expired;

 private:
  std::mutex mutex_;
  int last_ = 0;
};

/// All of it, with a file "a" (node 2, 1,000,000 bytes), an empty one "e" (3) and a directory "d" (4).
struct World {
  World() {
    tree.add(2, 1, "a", tree::Kind::kFile, 1000000);
    tree.add(3, 1, "e", tree::Kind::kFile, 0);
    tree.add(4, 1, "d", tree::Kind::kDirectory, 0);
    restart();
  }
  void restart() {
    fs.reset();
    fs = FileSystem::make(options, tree, fetcher, nullptr, executor, clock, metrics, kernel);
  }
  FakeSource& source(NodeId node) { return *fetcher.source(tree.node(node).info); }

  /// Waits: another open of the node that is being decided may answer it.
  Reply<OpenReply> open(NodeId node, int flags = O_RDONLY) {
    auto answered = std::make_shared<std::promise<Reply<OpenReply>>>();
    fs->open(node, flags, {}, [answered](Reply<OpenReply> reply) { answered->set_value(reply); });
    return answered->get_future().get();
  }
  Reply<EntryReply> lookup(NodeId parent, std::string_view name) {
    Reply<EntryReply> got{-1, {}};
    fs->lookup(parent, name, [&](Reply<EntryReply> reply) { got = reply; });
    return got;
  }
  Reply<std::string> read(HandleId handle, uint64_t offset, size_t size) {
    Reply<std::string> got{-1, {}};
    fs->read(handle, offset, size, {}, [&](const Reply<fetch::Pieces>& reply) { got = text(reply); });
    return got;
  }
  static Reply<std::string> text(const Reply<fetch::Pieces>& reply) {
    Reply<std::string> made{reply.error, {}};
    for (const iovec& piece : reply.value) made.value.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    return made;
  }
  int64_t gauge(std::string_view name) { return metrics.gauge(name).value(); }
  uint64_t counter(std::string_view name, std::string_view label = {}) { return metrics.counter(name, label).value(); }
  bool gauges_are_zero() {
    bool zero = true;
    for (const auto& entry : metrics.gauges()) zero = zero && entry.metric->value() == 0;
    return zero;
  }

  FileSystemOptions options;
  base::ManualClock clock;
  base::Metrics metrics;
  FakeTree tree;
  FakeFetcher fetcher;
  FakeKernel kernel;
  InlineExecutor executor;
  std::unique_ptr<FileSystem> fs;
};

}  // namespace shardfs::fs::testing
