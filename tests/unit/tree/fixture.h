// Fixture: a tree over a FakeStore and a clock that stands still, with short ways to ask it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "fake_store.h"
#include "tree/tree.h"

namespace shardfs::tree {

/// An answer that may still be missing.
template <class T>
class Awaited {
 public:
  std::function<void(base::Result<T>)> done() {
    return [state = state_](base::Result<T> answer) {
      std::lock_guard lock(state->mutex);
      ++state->times;
      state->answer = std::move(answer);
      state->arrived.notify_all();
    };
  }
  bool here() const {
    std::lock_guard lock(state_->mutex);
    return state_->times > 0;
  }
  unsigned times() const {
    std::lock_guard lock(state_->mutex);
    return state_->times;
  }
  /// Waits for it.
  base::Result<T> get() const {
    std::unique_lock lock(state_->mutex);
    state_->arrived.wait(lock, [this] { return state_->times > 0; });
    return *state_->answer;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    unsigned times = 0;
    std::optional<base::Result<T>> answer;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

using AwaitedNode = Awaited<Node>;
using AwaitedListing = Awaited<std::shared_ptr<const Listing>>;

struct Fixture {
  explicit Fixture(TreeOptions given = {}) : options(std::move(given)) {
    tree = Tree::make(options, store, clock, timer, metrics);
  }

  AwaitedNode lookup(NodeId parent, std::string_view name) {
    AwaitedNode node;
    tree->lookup(parent, name, node.done());
    return node;
  }
  /// Asks, lets the store answer everything, and takes the answer.
  base::Result<Node> look(NodeId parent, std::string_view name) {
    AwaitedNode node = lookup(parent, name);
    store.run_all();
    return node.get();
  }
  /// "a/b/c" from the root.
  base::Result<Node> walk(std::string_view path) {
    NodeId at = kRootNode;
    while (true) {
      const size_t slash = path.find('/');
      auto node = look(at, path.substr(0, slash));
      if (!node || slash == std::string_view::npos) return node;
      at = node->id;
      path.remove_prefix(slash + 1);
    }
  }
  AwaitedNode getattr(NodeId node) {
    AwaitedNode answer;
    tree->getattr(node, answer.done());
    return answer;
  }
  base::Result<Node> stat(NodeId node) {
    AwaitedNode answer = getattr(node);
    store.run_all();
    return answer.get();
  }
  AwaitedListing list_soon(NodeId directory) {
    AwaitedListing listing;
    tree->list(directory, listing.done());
    return listing;
  }
  base::Result<std::shared_ptr<const Listing>> list(NodeId directory) {
    AwaitedListing listing = list_soon(directory);
    store.run_all();
    return listing.get();
  }
  /// "name" for files, "name/" for directories.
  std::vector<std::string> names(NodeId directory) {
    std::vector<std::string> out;
    const auto listing = list(directory);
    if (!listing) return {"error " + std::string(base::name_of(listing.error().code))};
    for (const auto& listed : (*listing)->names) {
      out.push_back(listed.name + (listed.kind == Kind::kDirectory ? "/" : ""));
    }
    return out;
  }
  uint64_t count(const char* name) { return metrics.counter(name).value(); }

  TreeOptions options;
  base::ManualClock clock;
  base::Metrics metrics;
  base::Timer timer{"test-timer"};
  FakeStore store;
  std::unique_ptr<Tree> tree;
};

using Texts = std::vector<std::string>;

template <class T>
base::Code code_of(const base::Result<T>& result) {
  return result ? base::Code::kIo : result.error().code;  // kIo: no error of the tree is one
}

}  // namespace shardfs::tree
