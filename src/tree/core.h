// Core: the tree behind tree.h. Its parts hold the state; it takes the lock, asks the store and answers the callers.
// Thread rule: thread-safe. One mutex guards everything below it; it is never held while the store, the timer or a
// caller is called: what is to be called is gathered in Later and run when the lock is gone.
// Callbacks hold a reference to it, so it may outlive its Tree, but after close() it touches nothing outside.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/executor.h"
#include "base/metrics.h"
#include "store/object_store.h"
#include "tree/directory.h"
#include "tree/freshness.h"
#include "tree/key_ranges.h"
#include "tree/lister.h"
#include "tree/lookup.h"
#include "tree/node_table.h"
#include "tree/tree.h"

namespace shardfs::tree {

class Core : public std::enable_shared_from_this<Core> {
 public:
  using ListDone = std::function<void(base::Result<std::shared_ptr<const Listing>>)>;
  using StartDone = std::function<void(base::Result<void>)>;

  Core(TreeOptions options, store::ObjectStore& store, const base::Clock& clock, base::Timer& timer,
       base::Metrics& metrics);
  /// Answers all who wait with kCancelled.
  void close();

  void start(std::chrono::milliseconds deadline, StartDone done);
  void lookup(NodeId parent, std::string_view name, Tree::NodeDone done);
  void getattr(NodeId node, Tree::NodeDone done);
  void list(NodeId directory, ListDone done);
  base::Result<Node> enter(NodeId directory, const ListedName& listed);
  std::shared_ptr<const Listing> known_listing(std::string_view directory);
  std::optional<store::ObjectInfo> known_file(std::string_view directory, const ListedName& listed);
  void list_unasked(std::string_view directory, ListDone done);
  base::Result<Node> find(NodeId node);
  void forget(NodeId node, uint64_t count);
  void retire(NodeId node);
  void expire(NodeId node);
  std::vector<Tree::KernelName> refresh(std::string_view path);
  void on_file_found(std::function<void(const store::ObjectInfo&)> hook);
  size_t node_count() const;

 private:
  using Waiter = LookupFlight::Waiter;
  using LookupFlightPtr = std::shared_ptr<LookupFlight>;
  struct ListingFlight;
  using ListingFlightPtr = std::shared_ptr<ListingFlight>;

  /// Calls to make, and things to destroy, once the lock is gone.
  class Later {
   public:
    void call(std::function<void()> task) { calls_.push_back(std::move(task)); }
    void drop(std::vector<Directory> directories) {
      if (!directories.empty()) call([kept = std::make_shared<std::vector<Directory>>(std::move(directories))] {});
    }
    void run() {
      for (auto& task : calls_) task();
    }

   private:
    std::vector<std::function<void()>> calls_;
  };

  /// The frame of a callback from the store or the timer: takes the lock, and runs what is to be run later without it.
  /// close() waits for those under way.
  class Callback {
   public:
    explicit Callback(Core& core) : core_(core) {}
    ~Callback();
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;
    /// False: the tree is closed, and nothing is to be done.
    bool lock();
    Later& later() { return later_; }

   private:
    Core& core_;
    std::unique_lock<std::mutex> lock_;
    Later later_;
    bool counted_ = false;
  };

  // Lookups: core_lookup.cc. Those with a Later run under the lock.
  using Answer = std::optional<base::Result<Node>>;
  Answer answer_lookup(NodeId parent, std::string_view name, Tree::NodeDone& done, Later& later);
  Answer answer_getattr(NodeId node, Tree::NodeDone& done, Later& later);
  void ask(std::string_view directory, std::string_view name, const Known& known, Waiter waiter, Later& later);
  void send_head(const LookupFlightPtr& flight);
  void send_below(const LookupFlightPtr& flight);
  void set_timer(const LookupFlightPtr& flight);
  /// Calls on_overdue after stale_after unless the flight has settled by then.
  template <class Flight>
  void serve_stale_when_overdue(const std::shared_ptr<Flight>& flight);
  void on_head(const LookupFlightPtr& flight, base::Result<store::ObjectInfo> head);
  void on_below(const LookupFlightPtr& flight, base::Result<store::ListPage> page);
  void on_overdue(const LookupFlightPtr& flight);
  void advance(const LookupFlightPtr& flight, Later& later);
  void settle(const LookupFlightPtr& flight, Later& later);
  void answer_waiters(LookupFlight& flight, const Known& known, Lifetime valid_for, Later& later);
  void answer_stale(LookupFlight& flight, Later& later);
  void answer_from_pages(std::string_view directory, Later& later);
  base::Result<Node> answer_for(const Waiter& waiter, std::string_view path, const Known& known, Lifetime valid_for);

  // Listings: core_list.cc.
  std::shared_ptr<const Listing> list_now_or_later(std::string_view path, ListDone& done, Later& later);
  void consider_background(std::string_view directory, Later& later);
  void consider_refresh(std::string_view directory, std::string_view name, Later& later);
  ListingFlightPtr make_listing(std::string_view directory, store::Priority priority, Later& later);
  struct PageAsked {
    unsigned attempt = 0;
    uint64_t number = 0;
    uint64_t range = 0;  // of KeyRanges
  };
  void ask_pages(const ListingFlightPtr& flight);
  void on_page(const ListingFlightPtr& flight, const PageAsked& asked, base::Result<store::ListPage> page);
  /// The store does not keep the order of keys.
  void list_one_by_one(const ListingFlightPtr& flight, Later& later);
  /// From the beginning; the pages so far mean nothing.
  void restart(const ListingFlightPtr& flight, Later& later);
  void restart_listings(std::string_view path, Later& later);
  static void cancel_pages(ListingFlight& flight, Later& later);
  void on_overdue(const ListingFlightPtr& flight);
  void complete(const ListingFlightPtr& flight, Later& later);
  /// Nothing lies below the root: is it an object's key, by mistake?
  void start_empty(std::string prefix, std::chrono::milliseconds deadline, std::vector<StartDone> waiters);
  void add_index(const std::string& path, std::shared_ptr<const Listing> listing);
  void fail(const ListingFlightPtr& flight, const base::Error& error, Later& later);
  void settle(const ListingFlightPtr& flight, Later& later);
  void answer_waiters(ListingFlight& flight, const base::Result<std::shared_ptr<const Listing>>& answer, Later& later);
  void close_listings(Later& later, std::vector<base::TimerId>& timers);
  std::shared_ptr<const Listing> old_listing(std::string_view directory);

  // Both: core.cc. Under the lock.
  Node node_of(const NodeTable::Record& record, Lifetime valid_for) const;
  void learn(std::string_view directory, std::string_view name, Fact fact, Later& later);
  Known newest_fact(std::string_view directory, std::string_view name);
  std::string key_of(std::string_view path) const { return options_.prefix + std::string(path); }
  std::string directory_prefix(std::string_view path) const;
  static bool is_answer_of_outage(const base::Error& error);
  bool store_is_silent() const { return options_.stale_if_error && clock_.now() < silent_until_; }
  void store_was_silent();
  Lifetime stale_lifetime() const;
  bool is_late(Lifetime left) const { return left < options_.metadata_ttl / 2; }

  const TreeOptions options_;
  store::ObjectStore& store_;
  const base::Clock& clock_;
  base::Timer& timer_;
  base::Gauge& nodes_gauge_;
  base::Gauge& names_gauge_;
  base::Gauge& flights_gauge_;
  base::Counter& lookups_;
  base::Counter& from_memory_;
  base::Counter& stale_answers_;
  base::Counter& odd_keys_;
  base::Counter& revalidations_;

  mutable std::mutex mutex_;  // guards all below
  bool closed_ = false;
  unsigned busy_callbacks_ = 0;
  std::condition_variable idle_;
  NodeTable nodes_;
  DirectoryTable directories_;
  uint64_t order_ = 0;
  StringMap<LookupFlightPtr> flights_;                // by path; those that a new lookup may join
  std::unordered_set<LookupFlightPtr> open_flights_;  // all that have not settled
  StringMap<ListingFlightPtr> listings_;              // by path of the directory
  bool pages_out_of_order_ = false;                   // of this store
  base::SteadyTime silent_until_{};  // the store left a question unanswered: until then nobody waits for it in vain
  std::shared_ptr<const std::function<void(const store::ObjectInfo&)>> file_found_;
};

template <class Flight>
void Core::serve_stale_when_overdue(const std::shared_ptr<Flight>& flight) {
  const base::TimerId timer =
      timer_.schedule(options_.stale_after, [weak = weak_from_this(), weak_flight = std::weak_ptr<Flight>(flight)] {
        const auto self = weak.lock();
        const auto waiting = weak_flight.lock();
        if (self && waiting) self->on_overdue(waiting);
      });
  bool needless = false;
  {
    std::lock_guard lock(mutex_);
    needless = flight->settled;
    flight->timer = timer;
  }
  if (needless) timer_.cancel(timer);
}

}  // namespace shardfs::tree
