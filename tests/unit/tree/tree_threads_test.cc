// Many threads at once: every question is answered once, all counts come back, nothing is left. For TSan above all.
#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <thread>

#include "fixture.h"

using namespace shardfs;
using namespace shardfs::tree;

namespace {

constexpr int kThreads = 4;
constexpr int kStepsPerThread = 1500;

/// Asks at random, and gives back every count that it gets.
class Asker {
 public:
  Asker(Fixture& at, NodeId directory, unsigned seed)
      : at_(at), tree_(*at.tree), directory_(directory), random_(seed) {}

  void run() {
    for (int i = 0; i < kStepsPerThread; ++i) step();
  }
  uint64_t asked() const { return asked_; }
  uint64_t answered() const { return answered_; }

 private:
  void step() {
    const NodeId parent = random_() % 2 == 0 ? kRootNode : directory_;
    const std::string name = "f" + std::to_string(random_() % 40);
    switch (random_() % 12) {
      case 0:
        ++asked_;
        tree_.list(parent, [this, parent](auto listing) {
          ++answered_;
          if (!listing) return;
          for (const auto& listed : (*listing)->names) {
            const auto node = tree_.enter(parent, listed);
            if (node) tree_.forget(node->id, 1);
          }
        });
        return;
      case 1: at_.clock.advance(std::chrono::seconds(30)); return;
      case 2: at_.store.put(parent == kRootNode ? name : "d/" + name, 3, std::to_string(random_() % 4)); return;
      case 3: at_.store.remove(name); return;
      default: break;
    }
    const unsigned then = random_() % 4;
    ++asked_;
    tree_.lookup(parent, name, [this, then](base::Result<Node> node) {
      ++answered_;
      if (!node) return;
      if (then == 0) tree_.retire(node->id);
      if (then == 1) tree_.expire(node->id);
      if (then == 2) {
        ++asked_;
        tree_.getattr(node->id, [this, id = node->id](base::Result<Node>) {
          ++answered_;
          tree_.forget(id, 1);
        });
        return;
      }
      tree_.forget(node->id, 1);
    });
  }

  Fixture& at_;
  Tree& tree_;  // its answers come until its destructor has ended, when the fixture's pointer is null already
  const NodeId directory_;
  std::minstd_rand random_;
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> answered_{0};
};

}  // namespace

TEST_CASE("threads that look up, list, forget, retire and expire at once") {
  for (const bool end_early : {false, true}) {
    TreeOptions options;
    options.stale_after = std::chrono::milliseconds(1);
    options.listed_names_limit = 50;
    Fixture at(options);
    at.store.page_limit = 7;
    at.store.put("d/f1");
    std::atomic<unsigned> found{0};
    at.tree->on_file_found([&](const store::ObjectInfo&) { ++found; });
    const auto directory = at.look(kRootNode, "d");
    std::vector<std::unique_ptr<Asker>> askers;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      askers.push_back(std::make_unique<Asker>(at, directory->id, i + 1));
      threads.emplace_back([asker = askers.back().get()] { asker->run(); });
    }
    std::atomic<bool> asking{true};
    std::thread answering([&] {
      while (asking) {
        at.store.run_all();
        std::this_thread::yield();
      }
    });
    for (auto& thread : threads) thread.join();
    if (end_early) at.tree.reset();  // with requests under way
    asking = false;
    answering.join();
    at.store.run_all();
    for (const auto& asker : askers) CHECK(asker->asked() == asker->answered());
    CHECK(at.timer.pending() == 0);
    CHECK(at.metrics.gauge("tree_lookups_in_flight").value() == 0);
    if (!end_early) CHECK(at.tree->node_count() == 2);
  }
}
