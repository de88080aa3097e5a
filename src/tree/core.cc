#include "tree/core.h"

#include <utility>

#include "tree/names.h"

namespace shardfs::tree {
namespace {

using base::Code;

/// How long the kernel may keep an answer of an outage, and how long nobody waits for a store that left a question
/// unanswered. Source: as long as stale_after by default, so that at most every second second is spent waiting.
constexpr std::chrono::seconds kStaleLifetime{1};

}  // namespace

Core::Core(TreeOptions options, store::ObjectStore& store, const base::Clock& clock, base::Timer& timer,
           base::Metrics& metrics)
    : options_(std::move(options)),
      store_(store),
      clock_(clock),
      timer_(timer),
      nodes_gauge_(metrics.gauge("tree_nodes")),
      names_gauge_(metrics.gauge("tree_listed_names")),
      flights_gauge_(metrics.gauge("tree_lookups_in_flight")),
      lookups_(metrics.counter("tree_lookups")),
      from_memory_(metrics.counter("tree_lookups_from_memory")),
      stale_answers_(metrics.counter("tree_stale_answers")),
      odd_keys_(metrics.counter("tree_odd_keys")),
      revalidations_(metrics.counter("tree_revalidations")),
      nodes_(options_.prefix, clock.wall_now()),
      directories_(options_.listed_names_limit, names_gauge_) {
  nodes_gauge_.set(static_cast<int64_t>(nodes_.size()));
}

bool Core::Callback::lock() {
  lock_ = std::unique_lock(core_.mutex_);
  if (core_.closed_) return false;
  ++core_.busy_callbacks_;
  counted_ = true;
  return true;
}

Core::Callback::~Callback() {
  if (!counted_) return;
  lock_.unlock();
  later_.run();
  lock_.lock();
  if (--core_.busy_callbacks_ == 0 && core_.closed_) core_.idle_.notify_all();
}

void Core::close() {
  std::vector<Waiter> waiters;
  std::vector<base::TimerId> timers;
  Later later;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    idle_.wait(lock, [this] { return busy_callbacks_ == 0; });
    for (const auto& flight : open_flights_) {
      for (auto& waiter : flight->waiters) waiters.push_back(std::move(waiter));
      flight->waiters.clear();
      if (flight->timer) timers.push_back(*flight->timer);
    }
    open_flights_.clear();
    flights_.clear();
    close_listings(later, timers);
  }
  for (const auto timer : timers) timer_.cancel(timer);
  for (const auto& waiter : waiters) waiter.done(base::fail(Code::kCancelled, "the mount ends"));
  later.run();
  nodes_gauge_.set(0);
  names_gauge_.set(0);
  flights_gauge_.set(0);
}

base::Result<Node> Core::enter(NodeId node, const ListedName& listed) {
  std::lock_guard lock(mutex_);
  if (closed_) return base::fail(Code::kCancelled, "the mount ends");
  const NodeTable::Record* record = nodes_.find(node);
  if (record == nullptr) return base::fail(Code::kNotFound, "the directory's node was forgotten");
  const std::string_view directory = nodes_.path_of(*record);
  Known known = newest_fact(directory, listed.name);
  Lifetime left = Lifetime::zero();
  if (known.is_present()) {
    left = time_left(known.at, clock_.now(), options_.metadata_ttl);
  } else {
    known = Known(listed, {}, 0);  // the kernel shall ask at once
  }
  if (left == Lifetime::zero() && store_is_silent()) left = stale_lifetime();
  const std::string path = join_path(directory, listed.name);
  const Node entered = node_of(nodes_.enter(node, path, known), left);
  nodes_gauge_.set(static_cast<int64_t>(nodes_.size()));
  return entered;
}

std::shared_ptr<const Listing> Core::known_listing(std::string_view path) {
  std::lock_guard lock(mutex_);
  return old_listing(path);
}

std::optional<store::ObjectInfo> Core::known_file(std::string_view directory, const ListedName& listed) {
  std::lock_guard lock(mutex_);
  Known known = newest_fact(directory, listed.name);
  if (known.presence == Presence::kUnknown && known.order == 0) known = Known(listed, {}, 0);  // dropped since
  if (closed_ || !known.is_file()) return std::nullopt;
  return known.keep(key_of(join_path(directory, listed.name))).info;
}

base::Result<Node> Core::find(NodeId node) {
  std::lock_guard lock(mutex_);
  const NodeTable::Record* record = nodes_.find(node);
  if (record == nullptr) return base::fail(Code::kNotFound, "the node was forgotten");
  if (record->kind == Kind::kDirectory) return node_of(*record, options_.metadata_ttl);
  const auto [directory, name] = split_path(nodes_.path_of(*record));
  const Known known = newest_fact(directory, name);
  const bool current = NodeTable::is_version(*record, known);
  return node_of(*record, current ? time_left(known.at, clock_.now(), options_.metadata_ttl) : Lifetime::zero());
}

void Core::forget(NodeId node, uint64_t count) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  nodes_.forget(node, count);
  nodes_gauge_.set(static_cast<int64_t>(nodes_.size()));
}

void Core::retire(NodeId node) {
  std::lock_guard lock(mutex_);
  nodes_.retire(node);
}

void Core::expire(NodeId node) {
  Later later;
  {
    std::lock_guard lock(mutex_);
    const NodeTable::Record* record = nodes_.find(node);
    if (closed_ || record == nullptr || node == kRootNode) return;
    const std::string_view path = nodes_.path_of(*record);
    const auto [directory, name] = split_path(path);
    directories_.touch(directory).distrust(name, ++order_);
    later.drop(directories_.settle(directory));
    const auto flight = flights_.find(path);
    if (flight != flights_.end()) {
      flight->second->detached = true;
      flights_.erase(flight);
    }
  }
  later.run();
}

std::vector<Tree::KernelName> Core::refresh(std::string_view path) {
  std::vector<Tree::KernelName> names;
  Later later;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return {};
    for (const NodeTable::Record* record : nodes_.below(path)) {
      names.push_back({record->parent, std::string(split_path(nodes_.path_of(*record)).second)});
    }
    later.drop(directories_.drop_below(path));
    if (!path.empty()) {
      const auto [directory, name] = split_path(path);
      directories_.touch(directory).distrust(name, ++order_);
      later.drop(directories_.settle(directory));
    }
    std::vector<LookupFlightPtr> old;
    for (const auto& [at, flight] : flights_) {
      if (is_at_or_below(at, path)) old.push_back(flight);
    }
    for (const auto& flight : old) {
      flight->detached = true;
      std::erase_if(flights_, [&](const auto& entry) { return entry.second == flight; });
    }
    restart_listings(path, later);
  }
  later.run();
  return names;
}

void Core::on_file_found(std::function<void(const store::ObjectInfo&)> hook) {
  std::lock_guard lock(mutex_);
  file_found_ = std::make_shared<const std::function<void(const store::ObjectInfo&)>>(std::move(hook));
}

size_t Core::node_count() const {
  std::lock_guard lock(mutex_);
  return nodes_.size();
}

Node Core::node_of(const NodeTable::Record& record, Lifetime valid_for) const {
  Node node;
  node.id = record.id;
  node.st_ino = record.st_ino;
  node.kind = record.kind;
  node.parent = record.parent;
  node.name = split_path(nodes_.path_of(record)).second;
  if (record.kind == Kind::kFile) {
    node.info = record.info;
  } else {
    node.info.last_modified = record.info.last_modified;
  }
  node.valid_for = valid_for;
  return node;
}

void Core::learn(std::string_view directory_path, std::string_view name, Fact fact, Later& later) {
  Directory& directory = directories_.touch(directory_path);
  if (directory.find(name).order > fact.order) return;
  directory.learn(name, std::move(fact));
  later.drop(directories_.settle(directory_path));
}

Known Core::newest_fact(std::string_view directory, std::string_view name) {
  const Directory* known = directories_.find(directory);
  return known != nullptr ? known->find(name) : Known();
}

std::string Core::directory_prefix(std::string_view path) const {
  return path.empty() ? options_.prefix : key_of(path) + "/";
}

bool Core::is_answer_of_outage(const base::Error& error) {
  return error.code == Code::kTransient || error.code == Code::kTimeout;
}

void Core::store_was_silent() { silent_until_ = clock_.now() + kStaleLifetime; }

Lifetime Core::stale_lifetime() const { return std::min<Lifetime>(kStaleLifetime, options_.metadata_ttl); }

}  // namespace shardfs::tree
