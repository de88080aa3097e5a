// Whole directories: all pages for opendir, the root's first page at mount, and listings in the background.
#include <map>
#include <utility>

#include "base/heap.h"
#include "base/log.h"
#include "tree/core.h"
#include "tree/names.h"

namespace shardfs::tree {
namespace {

using base::Code;

/// Lookups of unknown names after which a directory is listed in the background. Source: one name may be all that is
/// wanted; two are HEAD and LIST twice, as much as the first pages of a listing.
constexpr unsigned kUnknownLookupsBeforeListing = 2;
/// Names used late in their lifetime, or past it, after which their directory is listed again in the background; one
/// more for each page. Source: one name may be all that is wanted; two cost as many HEADs as a short directory does
/// LISTs.
constexpr unsigned kLateNamesBeforeListing = 2;
/// Directories that are listed again at once. Source: 1,000 class directories within six seconds at 50 ms each.
constexpr size_t kRefreshesAtOnce = 8;
/// A background listing that failed, or was too long, is not tried again for this long.
constexpr std::chrono::seconds kBackgroundPause{60};
/// Source: 10 MiB; less is not worth the milliseconds.
constexpr size_t kNamesWorthTrimming = 100000;
/// Of the limit of names: what a listing that nobody waits for may take. Source: half leaves room for what is in use.
constexpr size_t kBackgroundShare = 2;

}  // namespace

struct Core::ListingFlight {
  std::string directory;
  std::shared_ptr<Lister> lister;
  store::Priority priority = store::Priority::kDemand;
  std::chrono::milliseconds deadline = store::ListOptions().deadline;
  std::vector<ListDone> waiters;
  std::vector<StartDone> first_page_waiters;
  base::SteadyTime page_asked_at{};
  bool only_first_page = false;
  std::optional<KeyRanges> ranges;  // several pages at once; else one after the other
  unsigned attempt = 0;             // pages of one before it mean nothing
  uint64_t pages_asked = 0;
  std::map<uint64_t, store::RequestHandle> requests;  // under way, by the number of the page; null: just being sent
  bool settled = false;
  bool overdue = false;  // the old listing was served in its place
  std::optional<base::TimerId> timer;
};

void Core::start(std::chrono::milliseconds deadline, StartDone done) {
  Later later;
  bool closed = false;
  {
    std::lock_guard lock(mutex_);
    closed = closed_;
    if (!closed) {
      const auto place = listings_.find({});
      ListingFlightPtr flight = place == listings_.end() ? nullptr : place->second;
      if (!flight) {
        flight = make_listing({}, store::Priority::kDemand, later);
        flight->deadline = deadline;
        flight->only_first_page = true;
      }
      flight->first_page_waiters.push_back(std::move(done));
    }
  }
  if (closed) return done(base::fail(Code::kCancelled, "the mount ends"));
  later.run();
}

void Core::list(NodeId node, ListDone done) {
  Later later;
  base::Result<std::shared_ptr<const Listing>> answer = nullptr;
  {
    std::lock_guard lock(mutex_);
    const NodeTable::Record* record = nodes_.find(node);
    if (closed_) {
      answer = base::fail(Code::kCancelled, "the mount ends");
    } else if (record == nullptr) {
      answer = base::fail(Code::kNotFound, "the directory's node was forgotten");
    } else if (record->kind != Kind::kDirectory) {
      answer = base::fail(Code::kNotDirectory, "\"" + record->info.key + "\" is a file");
    } else {
      answer = list_now_or_later(nodes_.path_of(*record), done, later);
    }
  }
  if (!answer || *answer) done(std::move(answer));
  later.run();
}

void Core::list_unasked(std::string_view path, ListDone done) {
  Later later;
  std::shared_ptr<const Listing> known;
  bool closed = false;
  {
    std::lock_guard lock(mutex_);
    closed = closed_;
    known = old_listing(path);
    const bool late = known && is_late(time_left(known->listed_at, clock_.now(), options_.metadata_ttl));
    if (late && !store_is_silent()) known = nullptr;
    if (!closed && !known) {
      const auto place = listings_.find(path);
      const auto flight = place != listings_.end() ? place->second : make_listing(path, store::Priority::kWarm, later);
      flight->only_first_page = false;
      flight->waiters.push_back(std::move(done));
    }
  }
  if (closed) return done(base::fail(Code::kCancelled, "the mount ends"));
  if (known) return done(std::move(known));
  later.run();
}

std::shared_ptr<const Listing> Core::list_now_or_later(std::string_view path, ListDone& done, Later& later) {
  const Directory* directory = directories_.find(path);
  const std::shared_ptr<const Listing> old = directory != nullptr ? directory->listing() : nullptr;
  if (old && !directory->listing_suspect() && is_fresh(old->listed_at, clock_.now(), options_.metadata_ttl)) return old;
  const auto place = listings_.find(path);
  const bool flight_overdue = place != listings_.end() && place->second->overdue;
  if (old && (store_is_silent() || flight_overdue)) {
    stale_answers_.add();
    return old;
  }
  ListingFlightPtr flight;
  if (place == listings_.end()) {
    flight = make_listing(path, store::Priority::kDemand, later);
  } else {
    flight = place->second;
    flight->only_first_page = false;
    if (flight->priority != store::Priority::kDemand) {
      flight->priority = store::Priority::kDemand;
      for (const auto& [page, request] : flight->requests) {
        if (request) later.call([request = request] { request->raise_to(store::Priority::kDemand); });
      }
    }
  }
  flight->waiters.push_back(std::move(done));
  if (old && options_.stale_if_error && flight->waiters.size() == 1) {
    later.call([self = shared_from_this(), flight] { self->serve_stale_when_overdue(flight); });
  }
  return nullptr;
}

void Core::consider_background(std::string_view path, Later& later) {
  Directory& directory = directories_.touch(path);
  if (directory.listing() || ++directory.unknown_lookups < kUnknownLookupsBeforeListing) return;
  if (clock_.now() < directory.no_background_before || listings_.contains(path)) return;
  make_listing(path, store::Priority::kReadahead, later);
}

void Core::consider_refresh(std::string_view path, std::string_view name, Later& later) {
  Directory* const directory = directories_.find(path);
  if (directory == nullptr || !directory->listing()) return;
  const Listing& listing = *directory->listing();
  if (!is_late(time_left(listing.listed_at, clock_.now(), options_.metadata_ttl))) return;
  directory->late_uses.set(std::hash<std::string_view>()(name) % directory->late_uses.size());
  const size_t pages = listing.names.size() / store::ListOptions().max_keys;
  if (directory->late_uses.count() < kLateNamesBeforeListing + pages) return;
  if (listing.names.size() >= options_.listed_names_limit / kBackgroundShare) return;
  if (clock_.now() < directory->no_background_before || listings_.contains(path)) return;
  if (store_is_silent() || listings_.size() >= kRefreshesAtOnce) return;
  make_listing(path, store::Priority::kReadahead, later);
}

Core::ListingFlightPtr Core::make_listing(std::string_view path, store::Priority priority, Later& later) {
  auto flight = std::make_shared<ListingFlight>();
  flight->directory = path;
  flight->lister = std::make_shared<Lister>(directory_prefix(path), clock_.now(), ++order_);
  flight->priority = priority;
  listings_.emplace(std::string(path), flight);
  later.call([self = shared_from_this(), flight] { self->ask_pages(flight); });
  return flight;
}

void Core::ask_pages(const ListingFlightPtr& flight) {
  for (;;) {
    store::ListOptions options;
    options.delimiter = "/";
    PageAsked asked;
    {
      std::lock_guard lock(mutex_);
      if (flight->settled) return;
      if (flight->ranges) {
        auto question = flight->ranges->next();
        if (!question) return;
        asked.range = question->id;
        options.start_after = std::move(question->start_after);
      } else {
        if (!flight->requests.empty()) return;
        options.continuation = flight->lister->continuation();
      }
      asked.attempt = flight->attempt;
      asked.number = ++flight->pages_asked;
      flight->requests[asked.number] = nullptr;
      options.prefix = flight->lister->prefix();
      options.priority = flight->priority;
      options.deadline = flight->deadline;
      flight->page_asked_at = clock_.now();
    }
    const store::Priority priority = options.priority;
    store::RequestHandle request =
        store_.list(std::move(options), [self = shared_from_this(), flight, asked](base::Result<store::ListPage> page) {
          self->on_page(flight, asked, std::move(page));
        });
    bool raise = false;
    {
      std::lock_guard lock(mutex_);
      const auto place = flight->requests.find(asked.number);
      if (place == flight->requests.end()) continue;  // it has been answered
      raise = flight->priority < priority;
      place->second = request;
    }
    if (raise && request) request->raise_to(store::Priority::kDemand);
  }
}

void Core::on_page(const ListingFlightPtr& flight, const PageAsked& asked, base::Result<store::ListPage> page) {
  std::string continuation;
  KeyRanges::Page place;
  PageNames names;
  if (page) {
    place = KeyRanges::Page::of(*page);
    continuation = std::move(page->continuation);
    names = names_of_page(flight->lister->prefix(), std::move(*page));
  }
  Callback callback(*this);
  if (!callback.lock()) return;
  Later& later = callback.later();
  if (flight->settled || asked.attempt != flight->attempt) return;
  flight->requests.erase(asked.number);
  if (!page) return fail(flight, page.error(), later);
  silent_until_ = {};
  if (flight->ranges && !flight->ranges->add(asked.range, place)) return list_one_by_one(flight, later);
  odd_keys_.add(names.odd);
  base::Result<bool> more = true;
  if (flight->ranges) {
    const bool done = flight->ranges->done();
    const auto added = flight->lister->add_part(std::move(names), flight->ranges->settled(), done);
    more = added ? base::Result<bool>(!done) : tl::unexpected(added.error());
  } else {
    more = flight->lister->add(std::move(names), place.truncated, std::move(continuation));
  }
  if (more && !*more) return complete(flight, later);

  directories_.touch(flight->directory).set_partial(flight->lister);
  later.drop(directories_.settle(flight->directory));
  answer_from_pages(flight->directory, later);
  if (!more) return fail(flight, more.error(), later);
  for (auto& done : std::exchange(flight->first_page_waiters, {})) {
    later.call([done = std::move(done)] { done({}); });
  }
  flight->deadline = store::ListOptions().deadline;
  if (flight->only_first_page) return settle(flight, later);
  const bool background = flight->priority != store::Priority::kDemand;
  if (background && flight->lister->name_count() >= options_.listed_names_limit / kBackgroundShare) {
    return fail(flight, {Code::kUnsupported, "too long to be listed unasked: " + flight->lister->prefix(), 0}, later);
  }
  // Nobody waits for one in the background; and its pages so far are all keys up to the last one.
  const bool in_order = place.in_order && !place.last_key.empty() && !pages_out_of_order_ &&
                        flight->lister->name_count() >= options_.names_before_parallel;
  if (!flight->ranges && !background && in_order) flight->ranges.emplace(flight->lister->prefix(), place);
  later.call([self = shared_from_this(), flight] { self->ask_pages(flight); });
}

void Core::list_one_by_one(const ListingFlightPtr& flight, Later& later) {
  base::warn_once("pages out of order", "the store lists out of order; long directories take longer");
  pages_out_of_order_ = true;
  restart(flight, later);
}

void Core::restart(const ListingFlightPtr& flight, Later& later) {
  cancel_pages(*flight, later);
  flight->ranges.reset();
  ++flight->attempt;
  flight->lister = std::make_shared<Lister>(flight->lister->prefix(), clock_.now(), ++order_);
  later.call([self = shared_from_this(), flight] { self->ask_pages(flight); });
}

void Core::restart_listings(std::string_view path, Later& later) {
  for (const auto& [directory, flight] : listings_) {
    if (is_at_or_below(directory, path)) restart(flight, later);
  }
}

void Core::cancel_pages(ListingFlight& flight, Later& later) {
  for (auto& [page, request] : std::exchange(flight.requests, {})) {
    if (request) later.call([request = std::move(request)] { request->cancel(); });
  }
}

void Core::complete(const ListingFlightPtr& flight, Later& later) {
  settle(flight, later);
  Lister& lister = *flight->lister;
  // A prefix without any key is no directory (any more), except for the root.
  const bool gone = lister.raw_count() == 0 && !flight->directory.empty();
  auto listing = std::make_shared<Listing>();
  listing->names = lister.take();
  // The last page's time: what a long listing said first is older, and a GET or the next lookup finds out.
  listing->listed_at = flight->page_asked_at;

  Directory& directory = directories_.touch(flight->directory);
  later.call([old = directory.listing()] {});  // destroyed without the lock
  directory.set_listing(gone ? nullptr : listing, lister.order());
  later.drop(directories_.settle(flight->directory));
  if (listing->names.size() >= NameIndex::kWorthwhile) {
    later.call([self = shared_from_this(), path = flight->directory, listing] { self->add_index(path, listing); });
  }
  // The runs that the names were gathered in, as much memory again.
  if (listing->names.size() >= kNamesWorthTrimming) later.call(base::trim_heap);
  if (gone) {
    const auto [parent, name] = split_path(flight->directory);
    Fact fact;
    fact.presence = Presence::kAbsent;
    fact.at = lister.started_at();
    fact.order = lister.order();
    learn(parent, name, std::move(fact), later);
    answer_waiters(*flight, base::fail(Code::kNotFound, "nothing lies below \"" + lister.prefix() + "\""), later);
    return;
  }
  auto starting = std::exchange(flight->first_page_waiters, {});
  if (!starting.empty() && lister.raw_count() == 0) {
    later.call([self = shared_from_this(), flight, starting = std::move(starting)]() mutable {
      self->start_empty(flight->lister->prefix(), flight->deadline, std::move(starting));
    });
  } else {
    for (auto& done : starting) later.call([done = std::move(done)] { done({}); });
  }
  answer_from_pages(flight->directory, later);
  answer_waiters(*flight, std::shared_ptr<const Listing>(listing), later);
}

void Core::start_empty(std::string prefix, std::chrono::milliseconds deadline, std::vector<StartDone> waiters) {
  auto answer = [prefix, waiters = std::move(waiters)](const base::Result<void>& result) {
    if (result) base::log_warning("nothing lies below \"{}\": the mount is empty", prefix);
    for (const auto& done : waiters) done(result);
  };
  if (prefix.empty()) return answer({});
  store::HeadOptions options;
  options.key.assign(prefix, 0, prefix.size() - 1);
  options.deadline = deadline;
  const std::string key = options.key;
  store_.head(std::move(options), [answer = std::move(answer), key](const base::Result<store::ObjectInfo>& info) {
    answer(info ? base::fail(Code::kNotDirectory, "\"" + key + "\" is an object") : base::Result<void>());
  });
}

void Core::add_index(const std::string& path, std::shared_ptr<const Listing> listing) {
  auto index = std::make_shared<const NameIndex>(std::move(listing));
  std::lock_guard lock(mutex_);
  if (Directory* directory = directories_.find(path)) directory->set_index(std::move(index));
}

void Core::fail(const ListingFlightPtr& flight, const base::Error& error, Later& later) {
  settle(flight, later);
  directories_.touch(flight->directory).no_background_before = clock_.now() + kBackgroundPause;
  for (auto& done : std::exchange(flight->first_page_waiters, {})) {
    later.call([done = std::move(done), error] { done(tl::unexpected<base::Error>(error)); });
  }
  const auto old = old_listing(flight->directory);
  if (old && options_.stale_if_error && is_answer_of_outage(error)) {
    store_was_silent();
    stale_answers_.add(flight->waiters.size());
    answer_waiters(*flight, old, later);
  } else {
    answer_waiters(*flight, tl::unexpected<base::Error>(error), later);
  }
}

void Core::on_overdue(const ListingFlightPtr& flight) {
  Callback callback(*this);
  if (!callback.lock() || flight->settled) return;
  const auto old = old_listing(flight->directory);
  if (!old) return;  // dropped meanwhile
  flight->overdue = true;
  store_was_silent();
  stale_answers_.add(flight->waiters.size());
  answer_waiters(*flight, old, callback.later());
}

void Core::settle(const ListingFlightPtr& flight, Later& later) {
  flight->settled = true;
  cancel_pages(*flight, later);
  if (flight->timer) later.call([self = shared_from_this(), timer = *flight->timer] { self->timer_.cancel(timer); });
  const auto place = listings_.find(flight->directory);
  if (place != listings_.end() && place->second == flight) listings_.erase(place);
}

void Core::answer_waiters(ListingFlight& flight, const base::Result<std::shared_ptr<const Listing>>& answer,
                          Later& later) {
  for (auto& done : std::exchange(flight.waiters, {})) {
    later.call([done = std::move(done), answer] { done(answer); });
  }
}

void Core::close_listings(Later& later, std::vector<base::TimerId>& timers) {
  for (auto& [path, flight] : listings_) {
    if (flight->timer) timers.push_back(*flight->timer);
    cancel_pages(*flight, later);
    const auto error = base::fail(Code::kCancelled, "the mount ends");
    for (auto& done : std::exchange(flight->first_page_waiters, {})) {
      later.call([done = std::move(done), error] { done(error); });
    }
    answer_waiters(*flight, error, later);
  }
  listings_.clear();
}

std::shared_ptr<const Listing> Core::old_listing(std::string_view path) {
  const Directory* directory = directories_.find(path);
  return directory != nullptr ? directory->listing() : nullptr;
}

}  // namespace shardfs::tree
