#include "app/path_lookup.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace shardfs::app {
namespace {

using base::Code;
using base::Result;
using Found = Result<store::ObjectInfo>;

// One path, part by part. Lives as long as a lookup of it is under way.
class Walk : public std::enable_shared_from_this<Walk> {
 public:
  Walk(tree::Tree& tree, std::string path, std::function<void(Found)> done)
      : tree_(tree), path_(std::move(path)), done_(std::move(done)) {}

  void step(tree::NodeId parent) {
    const size_t end = std::min(path_.find('/', at_), path_.size());
    const std::string part = path_.substr(at_, end - at_);
    at_ = std::min(end + 1, path_.size());
    tree_.lookup(parent, part, [self = shared_from_this(), parent](Result<tree::Node> node) {
      if (parent != tree::kRootNode) self->tree_.forget(parent, 1);
      self->arrived(std::move(node));
    });
  }

 private:
  void arrived(Result<tree::Node> node) {
    if (!node) return done_(tl::unexpected(std::move(node.error())));
    if (at_ < path_.size() && node->kind == tree::Kind::kDirectory) return step(node->id);
    tree_.forget(node->id, 1);
    if (at_ < path_.size()) return done_(base::fail(Code::kNotFound, path_ + ": no such file"));
    if (node->kind == tree::Kind::kDirectory) return done_(base::fail(Code::kIsDirectory, path_ + " is a directory"));
    done_(std::move(node->info));
  }

  tree::Tree& tree_;
  const std::string path_;
  const std::function<void(Found)> done_;
  size_t at_ = 0;
};

struct Answers {
  std::mutex mutex;
  std::condition_variable all_there;
  size_t left = 0;
  std::vector<Found> found;
};

}  // namespace

std::vector<Found> PathLookup::find(const std::vector<std::string>& paths, std::chrono::milliseconds deadline) {
  const auto answers = std::make_shared<Answers>();
  answers->left = paths.size();
  for (const auto& path : paths) answers->found.push_back(base::fail(Code::kTimeout, path + ": no answer in time"));
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto done = [answers, i](Found found) {
      const std::lock_guard lock(answers->mutex);
      answers->found[i] = std::move(found);
      if (--answers->left == 0) answers->all_there.notify_all();
    };
    if (paths[i].empty()) {
      done(base::fail(Code::kNotFound, "a name outside of the mount"));
    } else {
      std::make_shared<Walk>(tree_, paths[i], done)->step(tree::kRootNode);
    }
  }
  std::unique_lock lock(answers->mutex);
  answers->all_there.wait_for(lock, deadline, [&] { return answers->left == 0; });
  return answers->found;
}

}  // namespace shardfs::app
