// The Fetcher: the table of files in use, the deadlines, the end.
#include "fetch/fetcher.h"

#include <algorithm>
#include <future>
#include <list>
#include <unordered_map>

#include "fetch/shared.h"
#include "fetch/source_file.h"

namespace shardfs::fetch {
namespace {

// Files kept after their last use, with what their policy has learned. Source: MDS opens a shard anew for every sample
// and goes over all of them; a few hundred bytes each.
constexpr size_t kRecentFiles = 256;
constexpr std::chrono::seconds kDeadlineTick{1};

class FetcherImpl final : public Fetcher {
 public:
  FetcherImpl(FetchOptions options, FetchEnvironment environment) : shared_(std::move(options), environment) {
    shared_.metrics.memory_limit_bytes.set(static_cast<int64_t>(shared_.options.memory_bytes));
    schedule_tick();
  }
  ~FetcherImpl() override {
    shut_down();
    // The timer runs one task after the other: when this one runs, none of a file's is running.
    std::promise<void> passed;
    shared_.env.timer.schedule({}, [&passed] { passed.set_value(); });
    passed.get_future().wait();
  }

  std::shared_ptr<SourceFile> open(const store::ObjectInfo& info) override {
    store::ObjectId id{shared_.env.store.endpoint(), shared_.env.store.bucket(), info.key, store::version_of(info)};
    const std::string name = id.key + '\n' + id.version;
    std::list<std::shared_ptr<SourceFileImpl>> dropped;  // destroyed after the lock is released
    return find_or_make(info, std::move(id), name, dropped);
  }

  std::vector<FileState> in_use(size_t most) override {
    std::vector<FileState> states;
    for (const auto& file : all()) {
      if (states.size() >= most) break;
      if (auto state = file->file_state(); state.open_handles > 0 || state.parts > 0)
        states.push_back(std::move(state));
    }
    return states;
  }

  void release_idle() override {
    for (const auto& file : all()) file->let_go_of_cache_file();  // also what was only looked at, or guessed
  }

  void on_complete(std::function<void(const store::ObjectInfo&)> hook) override {
    shared_.on_complete = std::move(hook);
  }
  void on_scan(std::function<void(const store::ObjectInfo&)> hook) override { shared_.on_scan = std::move(hook); }
  void on_changed(std::function<void(const store::ObjectInfo&)> hook) override { shared_.on_changed = std::move(hook); }

  void shut_down() override {
    if (shared_.stopping.exchange(true)) return;
    {
      std::unique_lock lock(tick_mutex_);
      if (shared_.env.timer.cancel(tick_)) ticking_ = false;
      tick_ended_.wait(lock, [&] { return !ticking_; });
    }
    std::vector<std::shared_ptr<SourceFileImpl>> files = all();
    shared_.stragglers.stop();
    for (const auto& file : files) file->stop();
    shared_.scheduler.wait_until_idle();
    shared_.wait_for_jobs();
    for (const auto& file : files) file->drop_memory();
    std::lock_guard lock(mutex_);
    recent_.clear();
    recent_places_.clear();
    files.clear();
    shared_.metrics.memory_bytes.set(static_cast<int64_t>(shared_.budget.used_bytes()));
  }

 private:
  std::shared_ptr<SourceFileImpl> find_or_make(const store::ObjectInfo& info, store::ObjectId id,
                                               const std::string& name,
                                               std::list<std::shared_ptr<SourceFileImpl>>& dropped) {
    std::lock_guard lock(mutex_);
    auto& entry = files_[name];
    auto file = entry.lock();
    if (!file) {
      file = std::make_shared<SourceFileImpl>(shared_, info, std::move(id));
      entry = file;
    }
    const auto [place, added] = recent_places_.try_emplace(file.get());
    if (!added) recent_.erase(place->second);
    place->second = recent_.insert(recent_.begin(), file);
    while (recent_.size() > kRecentFiles) {
      recent_places_.erase(recent_.back().get());
      dropped.push_back(std::move(recent_.back()));
      recent_.pop_back();
    }
    if (files_.size() > 2 * sweep_at_) sweep();
    return file;
  }

  std::vector<std::shared_ptr<SourceFileImpl>> all() {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<SourceFileImpl>> files;
    for (const auto& [name, weak] : files_)
      if (auto file = weak.lock()) files.push_back(std::move(file));
    return files;
  }

  void sweep() {
    std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<size_t>(kRecentFiles, files_.size());
  }

  void schedule_tick() {
    std::lock_guard lock(tick_mutex_);
    ticking_ = true;
    tick_ = shared_.env.timer.schedule(kDeadlineTick, [this] { tick(); });
  }

  void tick() {
    const auto now = shared_.env.clock.now();
    for (const auto& file : all()) file->look_after_parked(now);
    shared_.holders.tick();
    shared_.scheduler.trim();
    if (shared_.budget.used_bytes() == 0) {
      shared_.pool.release_idle();
      shared_.small_pool.release_idle();
    }
    shared_.scheduler.pump();
    std::lock_guard lock(tick_mutex_);
    if (!shared_.stopping) {
      tick_ = shared_.env.timer.schedule(kDeadlineTick, [this] { tick(); });
      return;
    }
    ticking_ = false;
    tick_ended_.notify_all();
  }

  Shared shared_;
  std::mutex mutex_;  // guards the table
  std::unordered_map<std::string, std::weak_ptr<SourceFileImpl>> files_;
  std::list<std::shared_ptr<SourceFileImpl>> recent_;  // the last one first
  std::unordered_map<const SourceFileImpl*, std::list<std::shared_ptr<SourceFileImpl>>::iterator> recent_places_;
  size_t sweep_at_ = kRecentFiles;
  std::mutex tick_mutex_;  // guards the three below
  std::condition_variable tick_ended_;
  base::TimerId tick_ = 0;
  bool ticking_ = false;
};

}  // namespace

std::unique_ptr<Fetcher> Fetcher::make(FetchOptions options, FetchEnvironment environment) {
  return std::make_unique<FetcherImpl>(std::move(options), environment);
}

}  // namespace shardfs::fetch
