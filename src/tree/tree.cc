#include "tree/tree.h"

#include <utility>

#include "tree/core.h"

namespace shardfs::tree {
namespace {

class TreeOnStore final : public Tree {
 public:
  explicit TreeOnStore(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~TreeOnStore() override { core_->close(); }

  void start(std::chrono::milliseconds deadline, std::function<void(base::Result<void>)> done) override {
    core_->start(deadline, std::move(done));
  }
  void lookup(NodeId parent, std::string_view name, NodeDone done) override {
    core_->lookup(parent, name, std::move(done));
  }
  void getattr(NodeId node, NodeDone done) override { core_->getattr(node, std::move(done)); }
  void forget(NodeId node, uint64_t count) override { core_->forget(node, count); }
  base::Result<Node> find(NodeId node) const override { return core_->find(node); }
  void list(NodeId directory, std::function<void(base::Result<std::shared_ptr<const Listing>>)> done) override {
    core_->list(directory, std::move(done));
  }
  base::Result<Node> enter(NodeId directory, const ListedName& listed) override {
    return core_->enter(directory, listed);
  }
  std::shared_ptr<const Listing> known_listing(std::string_view directory) override {
    return core_->known_listing(directory);
  }
  std::optional<store::ObjectInfo> known_file(std::string_view directory, const ListedName& listed) override {
    return core_->known_file(directory, listed);
  }
  void list_unasked(std::string_view directory,
                    std::function<void(base::Result<std::shared_ptr<const Listing>>)> done) override {
    core_->list_unasked(directory, std::move(done));
  }
  void retire(NodeId node) override { core_->retire(node); }
  void expire(NodeId node) override { core_->expire(node); }
  std::vector<KernelName> refresh(std::string_view path) override { return core_->refresh(path); }
  void on_file_found(std::function<void(const store::ObjectInfo&)> hook) override {
    core_->on_file_found(std::move(hook));
  }
  size_t node_count() const override { return core_->node_count(); }

 private:
  const std::shared_ptr<Core> core_;  // shared with the callbacks of requests
};

}  // namespace

std::unique_ptr<Tree> Tree::make(TreeOptions options, store::ObjectStore& store, const base::Clock& clock,
                                 base::Timer& timer, base::Metrics& metrics) {
  return std::make_unique<TreeOnStore>(std::make_shared<Core>(std::move(options), store, clock, timer, metrics));
}

}  // namespace shardfs::tree
