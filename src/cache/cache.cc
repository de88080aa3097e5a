#include "cache/cache.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/executor.h"
#include "base/log.h"
#include "cache/core.h"
#include "cache/count.h"
#include "cache/evictor.h"
#include "cache/file.h"
#include "cache/file_table.h"
#include "cache/folder_holdings.h"
#include "cache/scrub.h"
#include "cache/share.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

// How often last uses and new files are written to the index. Source: what a crash may forget without harm.
constexpr std::chrono::seconds kBetweenWrites{5};

// Kept free inside the limit for what is not counted one by one: the index's journal, what the index
// grows by in one write, the marker, the budget page and the topmost directories. Source: docs/cache-format.md.
struct Overhead {
  uint64_t bytes;
  IndexLimits index;
};
Overhead overhead_of(uint64_t limit_bytes) {
  if (limit_bytes < (64 << 20)) return {1 << 20, {.rows_per_write = 16}};
  return {4 << 20, {.rows_per_write = 64}};
}
constexpr uint64_t kSmallestLimit = 4 << 20;

std::string boot_id_of_this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

constexpr uint64_t kPageBytes = 4096;

// What one byte in a sparse file occupies here: a page, a cluster, a huge page.
Result<uint64_t> measure_unit(base::Disk& disk, const Folder& folder) {
  const std::string path = folder.path() + "/probe.tmp";
  auto fd = disk.open(path, O_RDWR | O_CREAT | O_TRUNC);
  if (!fd) return tl::unexpected(fd.error());
  const std::byte one{1};
  auto done = disk.resize(fd->get(), 4 << 20);
  if (done) done = disk.write_at(fd->get(), std::span(&one, 1), 0);
  const auto stat = disk.stat(fd->get());
  static_cast<void>(disk.unlink(path));
  if (!done) return tl::unexpected(done.error());
  return std::max(kPageBytes, stat ? stat->allocated_bytes : kPageBytes);
}

class FolderCache final : public Cache {
 public:
  FolderCache(std::shared_ptr<Core> core, bool scrub)
      : core_(std::move(core)), holdings_(core_), keeper_([this] { keep(); }) {
    if (scrub) scrub_.emplace(core_);
  }

  ~FolderCache() override {
    scrub_.reset();
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    keeper_.join();
    flush();
  }

  std::shared_ptr<CacheFile> open_file(const store::ObjectId& id, uint64_t size_bytes) override {
    return core_->files->get(core_, id, size_bytes, FileTable::Wish::kMayMake);
  }

  std::shared_ptr<CacheFile> find_file(const store::ObjectId& id, uint64_t size_bytes) override {
    auto file = core_->files->get(core_, id, size_bytes, FileTable::Wish::kOnlyFind);
    if (file && file->resident_bytes() == 0) return nullptr;
    return file;
  }

  bool has_file(const store::ObjectId& id, uint64_t size_bytes) override {
    const FileKey key = {core_->name_space, hash_of(id, size_bytes)};
    return core_->disk.stat(core_->folder.path_of(key, FileKind::kMap)).has_value();
  }

  void touch(const store::ObjectId& id) override {
    const FileKey key = {core_->name_space, hash_of(id, 0)};
    const int64_t now = core_->wall_ms();
    core_->evictor->policy().note_use(id, core_->clock.wall_now());
    core_->files->note_use(key, now);
    core_->index->note_use(key, now);
  }

  CacheStats stats() const override {
    CacheStats stats;
    stats.used_bytes = core_->budget->use().sum();
    stats.limit_bytes = core_->limit_bytes();
    stats.free_bytes = free_bytes(stats.used_bytes);
    stats.files = files_.load(std::memory_order_relaxed);
    stats.complete_files = complete_files_.load(std::memory_order_relaxed);
    stats.evicted_files = core_->evicted_files.value();
    stats.evicted_bytes = core_->evicted_bytes.value();
    stats.bad_blocks = core_->bad_blocks.value();
    stats.failing = core_->health.failing();
    return stats;
  }

  Holdings* holdings() override { return &holdings_; }

  void flush() override {
    const Turn::Held turn(flush_turn_);
    for (const auto& file : core_->files->all()) file->save_use();
    core_->budget->notice_dead();
    if (core_->budget->count_wanted()) report(count_folder(*core_));
    const bool made = core_->index->take_was_made();
    if (made) report(fill_index(*core_));
    report(core_->index->write());
    if (made) core_->index->filled();
    core_->budget->set_index_bytes(index_bytes());
    core_->evictor->shrink_to_limit();
    const IndexCounts counts = core_->index->counts();
    files_.store(counts.files, std::memory_order_relaxed);
    complete_files_.store(counts.complete_files, std::memory_order_relaxed);
    core_->used_gauge.set(static_cast<int64_t>(core_->budget->use().sum()));
    core_->limit_gauge.set(static_cast<int64_t>(core_->limit_bytes()));
    core_->reserved_gauge.set(static_cast<int64_t>(core_->budget->own_reserved_bytes()));
  }

 private:
  uint64_t free_bytes(uint64_t used_bytes) const {
    const auto space = core_->disk.space(core_->folder.path());
    if (!space || core_->health.failing()) return 0;
    // What is reserved by this mount is not yet missing on the file system.
    const uint64_t kept = core_->min_free_bytes + core_->budget->own_reserved_bytes();
    const uint64_t on_disk = space->available_bytes - std::min(space->available_bytes, kept);
    return std::min(on_disk, core_->limit_bytes() - std::min(core_->limit_bytes(), used_bytes));
  }
  void report(const Result<void>& done) {
    if (!done) base::warn_once("cache:keeping", "cache: {}", done.error().message);
  }

  uint64_t index_bytes() {
    const auto stat = core_->disk.stat(core_->folder.index_path());
    return stat ? stat->allocated_bytes : 0;
  }

  void keep() noexcept {
    base::name_this_thread("cache-keeper");
    while (true) {
      flush();
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kBetweenWrites, [&] { return stop_; })) return;
    }
  }

  const std::shared_ptr<Core> core_;
  FolderHoldings holdings_;
  Turn flush_turn_;
  std::atomic<uint64_t> files_{0};
  std::atomic<uint64_t> complete_files_{0};
  std::mutex mutex_;  // guards stop_
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread keeper_;
  std::optional<Scrub> scrub_;
};

Result<std::shared_ptr<Core>> make_core(const CacheOptions& options, base::Disk& disk, const base::Clock& clock,
                                        base::Metrics& metrics) {
  if (!is_name_space(options.trust_namespace)) {
    return base::fail(Code::kInvalid,
                      "cache namespace '" + options.trust_namespace + "': 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'");
  }
  auto folder = Folder::open(disk, options.folder);
  if (!folder) return tl::unexpected(folder.error());
  const auto space = disk.space(folder->path());
  if (!space) return tl::unexpected(space.error());
  auto core = std::make_shared<Core>(disk, clock, metrics, *folder, options.trust_namespace);
  core->own_limit_bytes = options.limit.of(space->total_bytes);
  core->min_free_bytes = options.min_free.of(space->total_bytes);
  if (core->own_limit_bytes < kSmallestLimit) {
    return base::fail(Code::kInvalid,
                      fmt::format("cache size {}: at least {} (or 0 for none)",
                                  base::format_bytes(core->own_limit_bytes), base::format_bytes(kSmallestLimit)));
  }
  if (core->min_free_bytes >= space->total_bytes) {
    return base::fail(Code::kInvalid,
                      fmt::format("cache floor of free space {}: the file system has only {}",
                                  base::format_bytes(core->min_free_bytes), base::format_bytes(space->total_bytes)));
  }
  core->boot_tag = tag_of_boot(options.boot_id.empty() ? boot_id_of_this_machine() : options.boot_id);
  const Overhead overhead = overhead_of(core->own_limit_bytes);
  auto budget = Budget::open(disk, folder->budget_path(), core->own_limit_bytes, overhead.bytes);
  if (!budget) return tl::unexpected(budget.error());
  core->budget = std::move(*budget);
  core->charges.unit_bytes = core->budget->unit_bytes();
  if (core->budget->was_alone() || core->charges.unit_bytes == 0) {
    const auto unit = measure_unit(disk, *folder);
    if (core->charges.unit_bytes == 0) core->charges.unit_bytes = kPageBytes;  // on a full disk nothing is measured
    if (unit && *unit != core->charges.unit_bytes) {
      core->charges.unit_bytes = *unit;
      core->budget->set_unit_bytes(*unit);
      core->budget->want_count();
    }
  }
  core->index = std::make_unique<Index>(folder->index_path(), overhead.index, core->budget->fd(), Budget::kFreeLocks);
  core->evictor = std::make_unique<Evictor>(
      *core, options.eviction == Eviction::kNextUse ? make_next_use(options.set_prefix) : make_least_recently_used());
  core->share = std::make_unique<Share>(*core, options.share, options.set_prefix);
  core->files = std::make_unique<FileTable>();
  // Alone and not left clean: the figures are from before a crash. With others alive, they see to it.
  if (core->budget->count_wanted()) {
    if (auto counted = count_folder(*core); !counted) return tl::unexpected(counted.error());
  }
  const uint64_t used = core->budget->use().sum();
  const uint64_t limit = core->limit_bytes();
  if (const auto pinned = core->index->pinned_bytes(); pinned && *pinned > limit) {
    base::log_warning("cache size {}: {} are pinned in {}, and nothing else may enter", base::format_bytes(limit),
                      base::format_bytes(*pinned), folder->path());
  }
  if (used < limit && space->available_bytes < limit - used) {
    base::log_warning("cache size {}: the file system of {} has only {} free", base::format_bytes(limit),
                      folder->path(), base::format_bytes(space->available_bytes));
  }
  core->limit_gauge.set(static_cast<int64_t>(limit));
  core->used_gauge.set(static_cast<int64_t>(used));
  return core;
}

}  // namespace

Result<std::unique_ptr<Cache>> Cache::open(CacheOptions options, base::Disk& disk, const base::Clock& clock,
                                           base::Metrics& metrics) {
  auto core = make_core(options, disk, clock, metrics);
  if (!core) {
    auto& error = core.error();
    if (error.code != Code::kInvalid) error.code = Code::kCacheIo;
    return tl::unexpected(error);
  }
  return std::make_unique<FolderCache>(std::move(*core), options.scrub);
}

}  // namespace shardfs::cache
