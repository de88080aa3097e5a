// Names one by one: from memory, else HEAD and LIST side by side, revalidation, and what is served in an outage.
#include <utility>

#include "tree/core.h"
#include "tree/names.h"

namespace shardfs::tree {
namespace {

using base::Code;

/// Pages of LIST with max_keys=1 that may be empty and say that more follows. Source: as Lister::kIdlePagesLimit.
constexpr unsigned kEmptyPagesLimit = 100;

}  // namespace

void Core::lookup(NodeId parent, std::string_view name, Tree::NodeDone done) {
  lookups_.add();
  Later later;
  Answer answer;
  {
    std::lock_guard lock(mutex_);
    answer = answer_lookup(parent, name, done, later);
    nodes_gauge_.set(static_cast<int64_t>(nodes_.size()));
  }
  if (answer) done(std::move(*answer));
  later.run();
}

Core::Answer Core::answer_lookup(NodeId parent, std::string_view name, Tree::NodeDone& done, Later& later) {
  if (closed_) return base::fail(Code::kCancelled, "the mount ends");
  const NodeTable::Record* directory = nodes_.find(parent);
  if (directory == nullptr) return base::fail(Code::kNotFound, "the directory's node was forgotten");
  if (directory->kind != Kind::kDirectory) {
    return base::fail(Code::kNotDirectory, "\"" + directory->info.key + "\" is a file");
  }
  const PartKind part = check_part(name);
  if (part == PartKind::kTooLong) return base::fail(Code::kNameTooLong, "a name of more than 255 bytes");
  if (part != PartKind::kGood) return base::fail(Code::kNotFound, "no file can have this name");

  const std::string_view directory_path = nodes_.path_of(*directory);
  const Known known = newest_fact(directory_path, name);
  const base::SteadyTime now = clock_.now();
  if (known.is_present()) {
    const Lifetime left = time_left(known.at, now, options_.metadata_ttl);
    if (left > Lifetime::zero()) {
      from_memory_.add();
      auto found = node_of(nodes_.enter(parent, join_path(directory_path, name), known), left);
      if (is_late(left)) consider_refresh(directory_path, name, later);
      return found;
    }
  } else if (known.presence == Presence::kAbsent && is_fresh(known.at, now, options_.negative_ttl)) {
    from_memory_.add();
    return base::fail(Code::kNotFound, "no such object or prefix, as the store said a moment ago");
  }
  ask(directory_path, name, known, Waiter{parent, false, std::move(done)}, later);
  return std::nullopt;
}

void Core::getattr(NodeId node, Tree::NodeDone done) {
  Later later;
  Answer answer;
  {
    std::lock_guard lock(mutex_);
    answer = answer_getattr(node, done, later);
  }
  if (answer) done(std::move(*answer));
  later.run();
}

Core::Answer Core::answer_getattr(NodeId node, Tree::NodeDone& done, Later& later) {
  if (closed_) return base::fail(Code::kCancelled, "the mount ends");
  const NodeTable::Record* record = nodes_.find(node);
  if (record == nullptr) return base::fail(Code::kNotFound, "the node was forgotten");
  if (record->kind == Kind::kDirectory) return node_of(*record, options_.metadata_ttl);

  const std::string_view path = nodes_.path_of(*record);
  const auto [directory, name] = split_path(path);
  const Known known = newest_fact(directory, name);
  const base::SteadyTime now = clock_.now();
  Waiter waiter{node, true, nullptr};
  if (known.is_present()) {
    const Lifetime left = time_left(known.at, now, options_.metadata_ttl);
    if (left > Lifetime::zero()) {
      auto found = answer_for(waiter, path, known, left);
      if (is_late(left)) consider_refresh(directory, name, later);
      return found;
    }
  } else if (known.presence == Presence::kAbsent && is_fresh(known.at, now, options_.negative_ttl)) {
    return answer_for(waiter, path, known, Lifetime::zero());
  }
  waiter.done = std::move(done);
  ask(directory, name, known, std::move(waiter), later);
  return std::nullopt;
}

void Core::ask(std::string_view directory, std::string_view name, const Known& known, Waiter waiter, Later& later) {
  std::string path = join_path(directory, name);
  std::string key = key_of(path);
  std::optional<Fact> last;
  if (known.is_present()) {
    last = known.keep(key);
  } else if (known.order == 0) {
    // Nothing is remembered of the name, but the kernel holds a node of it.
    if (const NodeTable::Record* node = nodes_.youngest(path)) {
      last.emplace();
      last->presence = node->kind == Kind::kFile ? Presence::kFile : Presence::kDirectory;
      if (last->presence == Presence::kFile) last->info = node->info;
    }
  }
  if (!last && key.size() > kKeyBytesLimit) {
    later.call([done = std::move(waiter.done)] { done(base::fail(Code::kNameTooLong, "a key of over 1024 bytes")); });
    return;
  }

  const auto place = flights_.find(path);
  const bool flight_overdue = place != flights_.end() && place->second->overdue && place->second->last_known;
  if ((last && store_is_silent()) || flight_overdue) {
    if (!last) last = place->second->last_known;
    stale_answers_.add();
    // The waiter has the caller's `done`, so the answer goes through it.
    auto answer = answer_for(waiter, path, Known(*last), stale_lifetime());
    later.call([done = std::move(waiter.done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
    return;
  }
  if (place != flights_.end()) {
    place->second->for_lookup |= !waiter.getattr;
    place->second->waiters.push_back(std::move(waiter));
    return;
  }

  const bool for_lookup = !waiter.getattr;
  auto flight = std::make_shared<LookupFlight>(std::string(directory), std::string(name), std::move(last));
  flight->path = path;
  flight->key = std::move(key);
  flight->started_at = clock_.now();
  flight->order = ++order_;
  flight->for_lookup = for_lookup;
  flight->waiters.push_back(std::move(waiter));
  flights_.emplace(std::move(path), flight);
  open_flights_.insert(flight);
  flights_gauge_.set(static_cast<int64_t>(open_flights_.size()));
  if (flight->last_known) revalidations_.add();
  later.call([self = shared_from_this(), flight, head = flight->questions.head_asked(),
              below = flight->questions.below_asked()] {
    if (head) self->send_head(flight);
    if (below) self->send_below(flight);
    self->set_timer(flight);
  });
  if (flight->last_known) {
    consider_refresh(directory, name, later);
  } else if (for_lookup) {
    consider_background(directory, later);
  }
}

void Core::send_head(const LookupFlightPtr& flight) {
  store::HeadOptions options;
  options.key = flight->key;
  store_.head(std::move(options), [self = shared_from_this(), flight](base::Result<store::ObjectInfo> head) {
    self->on_head(flight, std::move(head));
  });
}

void Core::send_below(const LookupFlightPtr& flight) {
  store::ListOptions options;
  options.prefix = flight->key + "/";
  options.delimiter = "/";
  options.max_keys = 1;
  {
    std::lock_guard lock(mutex_);
    options.continuation = flight->below_token;
  }
  store_.list(std::move(options), [self = shared_from_this(), flight](base::Result<store::ListPage> page) {
    self->on_below(flight, std::move(page));
  });
}

void Core::set_timer(const LookupFlightPtr& flight) {
  if (flight->last_known && options_.stale_if_error) serve_stale_when_overdue(flight);
}

void Core::on_head(const LookupFlightPtr& flight, base::Result<store::ObjectInfo> head) {
  if (head) {
    head->key = flight->key;
    head->last_modified = to_seconds(head->last_modified);
  }
  Callback callback(*this);
  if (!callback.lock() || flight->settled) return;
  if (head && file_found_ && flight->for_lookup) {
    const bool known = flight->last_known && flight->last_known->presence == Presence::kFile &&
                       store::same_version(flight->last_known->info, *head);
    if (!known) callback.later().call([hook = file_found_, info = *head] { (*hook)(info); });
  }
  flight->questions.answer_head(std::move(head));
  advance(flight, callback.later());
}

void Core::on_below(const LookupFlightPtr& flight, base::Result<store::ListPage> page) {
  Callback callback(*this);
  if (!callback.lock() || flight->settled) return;
  if (!page) {
    flight->questions.answer_below(tl::unexpected<base::Error>(std::move(page.error())));
    return advance(flight, callback.later());
  }
  const std::string below = flight->key + "/";
  const bool something = (!page->objects.empty() && page->objects.front().key.starts_with(below)) ||
                         (!page->prefixes.empty() && page->prefixes.front().starts_with(below));
  if (something || !page->truncated) {
    flight->questions.answer_below(something);
    return advance(flight, callback.later());
  }
  const bool same_token = page->continuation.empty() || page->continuation == flight->below_token;
  if (same_token || ++flight->below_pages >= kEmptyPagesLimit) {
    flight->questions.answer_below(
        base::fail(Code::kIntegrity, "the listing of \"" + below + "\" goes on without a key"));
    return advance(flight, callback.later());
  }
  flight->below_token = std::move(page->continuation);
  callback.later().call([self = shared_from_this(), flight] { self->send_below(flight); });
}

void Core::advance(const LookupFlightPtr& flight, Later& later) {
  Fact fact;
  fact.at = flight->started_at;
  fact.order = flight->order;
  switch (flight->questions.step()) {
    case Questions::Step::kWait: return;
    case Questions::Step::kAskHead:
      flight->questions.ask_head();
      later.call([self = shared_from_this(), flight] { self->send_head(flight); });
      return;
    case Questions::Step::kAskBelow:
      flight->questions.ask_below();
      later.call([self = shared_from_this(), flight] { self->send_below(flight); });
      return;
    case Questions::Step::kFile:
      fact.presence = Presence::kFile;
      fact.info = flight->questions.file();
      break;
    case Questions::Step::kDirectory:
      fact.presence = Presence::kDirectory;
      if (flight->questions.head_found()) warn_key_and_prefix(flight->key);
      break;
    case Questions::Step::kAbsent: fact.presence = Presence::kAbsent; break;
    case Questions::Step::kFailed:
      settle(flight, later);
      if (flight->last_known && options_.stale_if_error && is_answer_of_outage(flight->questions.error())) {
        answer_stale(*flight, later);
        return;
      }
      for (auto& waiter : std::exchange(flight->waiters, {})) {
        later.call([done = std::move(waiter.done), error = flight->questions.error()] {
          done(tl::unexpected<base::Error>(error));
        });
      }
      return;
  }
  silent_until_ = {};
  settle(flight, later);
  const Lifetime left =
      flight->detached ? Lifetime::zero() : time_left(flight->started_at, clock_.now(), options_.metadata_ttl);
  answer_waiters(*flight, Known(fact), left, later);
  if (!flight->detached) learn(flight->directory, flight->name, std::move(fact), later);
}

void Core::settle(const LookupFlightPtr& flight, Later& later) {
  flight->settled = true;
  if (flight->timer) later.call([this, timer = *flight->timer, self = shared_from_this()] { timer_.cancel(timer); });
  const auto place = flights_.find(flight->path);
  if (place != flights_.end() && place->second == flight) flights_.erase(place);
  open_flights_.erase(flight);
  flights_gauge_.set(static_cast<int64_t>(open_flights_.size()));
}

void Core::on_overdue(const LookupFlightPtr& flight) {
  Callback callback(*this);
  if (!callback.lock() || flight->settled) return;
  flight->overdue = true;
  answer_stale(*flight, callback.later());
}

void Core::answer_stale(LookupFlight& flight, Later& later) {
  store_was_silent();
  stale_answers_.add(flight.waiters.size());
  answer_waiters(flight, Known(*flight.last_known), stale_lifetime(), later);
}

void Core::answer_waiters(LookupFlight& flight, const Known& known, Lifetime valid_for, Later& later) {
  for (auto& waiter : std::exchange(flight.waiters, {})) {
    auto answer = answer_for(waiter, flight.path, known, valid_for);
    later.call([done = std::move(waiter.done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
  }
  nodes_gauge_.set(static_cast<int64_t>(nodes_.size()));
}

void Core::answer_from_pages(std::string_view directory, Later& later) {
  std::vector<LookupFlightPtr> waiting;
  for (const auto& flight : open_flights_) {
    if (!flight->detached && flight->directory == directory) waiting.push_back(flight);
  }
  for (const auto& flight : waiting) {
    const Known known = newest_fact(flight->directory, flight->name);
    if (!known.is_present()) continue;
    const Lifetime left = time_left(known.at, clock_.now(), options_.metadata_ttl);
    if (left == Lifetime::zero()) continue;
    settle(flight, later);
    answer_waiters(*flight, known, left, later);
  }
}

base::Result<Node> Core::answer_for(const Waiter& waiter, std::string_view path, const Known& known,
                                    Lifetime valid_for) {
  if (!known.is_present()) return base::fail(Code::kNotFound, "no such object or prefix: \"" + key_of(path) + "\"");
  if (!waiter.getattr) return node_of(nodes_.enter(waiter.node, path, known), valid_for);
  const NodeTable::Record* record = nodes_.find(waiter.node);
  if (record == nullptr) return base::fail(Code::kNotFound, "the node was forgotten");
  if (!NodeTable::is_version(*record, known)) {
    return base::fail(Code::kChanged, "\"" + record->info.key + "\" is another version now");
  }
  return node_of(*record, valid_for);
}

}  // namespace shardfs::tree
