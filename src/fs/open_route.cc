#include "fs/open_route.h"

#include <cerrno>
#include <utility>

#include "base/log.h"

namespace shardfs::fs {
namespace {

std::string object_name(const store::ObjectInfo& info) {
  std::string name = info.key;
  name += '\0';
  name += store::version_of(info);
  return name;
}

}  // namespace

void OpenRoutes::open(const tree::Node& node, uint32_t process, Done done) {
  const auto open = enter(node);
  if (!open) return done({nullptr, Route::kDaemon, 0, EIO});
  if (open->source_) open->source_->opened(process);
  const bool may_pass = open->source_ && kernel_.passthrough() && open->size_bytes_ >= kPassthroughFromBytes;
  Outcome outcome{open, Route::kDaemon, 0, 0};
  bool first = false;
  bool look_again = false;
  {
    std::lock_guard lock(open->mutex_);
    if (open->deciding_) {
      open->waiting_.push_back(std::move(done));
      return;
    }
    if (open->cached_ == 0 && open->passthrough_ == 0 && may_pass) {
      first = open->deciding_ = true;
    } else if (open->passthrough_ > 0) {
      ++open->passthrough_;
      outcome.route = Route::kPassthrough;
      outcome.backing_id = open->backing_id_;
    } else {
      ++open->cached_;
      look_again = may_pass && !open->settled_;
    }
  }
  if (first) return decide_first(open, done);
  count(*open, outcome.route);
  done(outcome);
  if (look_again) retire_if_complete(*open);
}

void OpenRoutes::decide_first(const std::shared_ptr<OpenNode>& node, const Done& done) {
  fetch::SourceFile::Backing backing;
  const int id = register_backing(*node, backing);
  const Outcome outcome{node, id != 0 ? Route::kPassthrough : Route::kDaemon, id, 0};
  std::vector<Done> waiting;
  bool late = false;
  {
    std::lock_guard lock(node->mutex_);
    node->deciding_ = false;
    waiting.swap(node->waiting_);
    const int opens = 1 + static_cast<int>(waiting.size());
    if (id != 0) {
      node->passthrough_ = opens;
      node->backing_id_ = id;
      node->backing_ = std::move(backing);
    } else {
      node->cached_ = opens;
      late = node->completed_ && !node->settled_;
    }
  }
  if (id != 0) meters_.backing_ids.add(1);
  for (const Done& other : waiting) {
    count(*node, outcome.route);
    other(outcome);
  }
  count(*node, outcome.route);
  done(outcome);
  if (late) retire(*node);
}

int OpenRoutes::register_backing(OpenNode& node, fetch::SourceFile::Backing& backing) {
  backing = node.source_->backing();
  if (!backing.file) return 0;
  auto refused = [&](const base::Error& error) {
    meters_.failed_backings.add();
    base::warn_once("fs: backing refused", "complete files are served by the daemon: {}", error.message);
    std::lock_guard lock(node.mutex_);
    node.settled_ = true;
    return 0;
  };
  // The kernel would read past the size that stat shows.
  if (backing.file->size_bytes() != node.size_bytes_) {
    return refused({base::Code::kIntegrity, "a cache file is not as long as its object", 0});
  }
  auto descriptor = backing.file->backing_descriptor();
  if (!descriptor) return refused(descriptor.error());
  auto id = kernel_.open_backing(descriptor->get());
  if (!id) return refused(id.error());
  return *id;
}

void OpenRoutes::close(const std::shared_ptr<OpenNode>& node, Route route) {
  fetch::SourceFile::Backing backing;
  int id = 0;
  {
    std::lock_guard lock(node->mutex_);
    if (route == Route::kDaemon) {
      --node->cached_;
    } else if (--node->passthrough_ == 0) {
      id = std::exchange(node->backing_id_, 0);
      backing = std::move(node->backing_);
      node->backing_ = {};
    }
  }
  if (id != 0) {
    kernel_.close_backing(id);
    meters_.backing_ids.add(-1);
  }
  backing = {};  // the pin goes after the id
  if (node->source_) node->source_->closed();
  leave(node);
}

std::shared_ptr<OpenNode> OpenRoutes::enter(const tree::Node& node) {
  {
    std::lock_guard lock(mutex_);
    const auto place = by_node_.find(node.id);
    if (place != by_node_.end()) {
      ++place->second->users_;
      return place->second;
    }
  }
  std::shared_ptr<fetch::SourceFile> source;
  if (node.info.size_bytes > 0) {
    source = fetcher_.open(node.info);
    if (!source) return nullptr;
  }
  auto made = std::make_shared<OpenNode>(node, std::move(source), object_name(node.info));
  std::lock_guard lock(mutex_);
  const auto [place, added] = by_node_.try_emplace(node.id, made);
  if (added) by_object_.emplace(made->object_, made);
  ++place->second->users_;
  return place->second;
}

void OpenRoutes::leave(const std::shared_ptr<OpenNode>& node) {
  std::lock_guard lock(mutex_);
  if (--node->users_ > 0) return;
  by_node_.erase(node->id_);
  const auto [begin, end] = by_object_.equal_range(node->object_);
  for (auto place = begin; place != end; ++place) {
    if (place->second != node) continue;
    by_object_.erase(place);
    break;
  }
}

std::shared_ptr<fetch::SourceFile> OpenRoutes::source_of(NodeId node) const {
  std::lock_guard lock(mutex_);
  const auto place = by_node_.find(node);
  return place == by_node_.end() ? nullptr : place->second->source_;
}

std::vector<std::shared_ptr<OpenNode>> OpenRoutes::nodes_of(const store::ObjectInfo& info) const {
  const std::string object = object_name(info);
  std::vector<std::shared_ptr<OpenNode>> found;
  std::lock_guard lock(mutex_);
  const auto [begin, end] = by_object_.equal_range(object);
  for (auto place = begin; place != end; ++place) found.push_back(place->second);
  return found;
}

void OpenRoutes::on_complete(const store::ObjectInfo& info) {
  if (!kernel_.passthrough()) return;
  for (const auto& node : nodes_of(info)) {
    bool held = false;
    {
      std::lock_guard lock(node->mutex_);
      node->completed_ = true;
      held = node->cached_ > 0;
    }
    if (held) retire(*node);
  }
}

void OpenRoutes::on_changed(const store::ObjectInfo& info) {
  for (const auto& node : nodes_of(info)) {
    tree_.expire(node->id_);
    expiry_.expire(node->parent_, node->name_);
  }
}

void OpenRoutes::retire(OpenNode& node) {
  {
    std::lock_guard lock(node.mutex_);
    if (std::exchange(node.settled_, true)) return;
  }
  tree_.retire(node.id_);
  expiry_.expire(node.parent_, node.name_);
}

void OpenRoutes::retire_if_complete(OpenNode& node) {
  // Another mount of this cache folder may have completed it: nobody tells this process.
  if (node.source_->backing().file) retire(node);
}

void OpenRoutes::count(const OpenNode& node, Route route) {
  if (route == Route::kDaemon) return meters_.daemon_opens.add();
  meters_.passthrough_opens.add();
  meters_.passthrough_open_bytes.add(node.size_bytes_);
}

}  // namespace shardfs::fs
