// FolderHoldings: Holdings over the index, the maps and the locks of one opened folder.
// Thread rule: thread-safe. Pins are made one after the other, so that two don't pass the limit together.
#pragma once

#include <memory>
#include <mutex>

#include "cache/core.h"
#include "cache/holdings.h"

namespace shardfs::cache {

class FolderHoldings final : public Holdings {
 public:
  explicit FolderHoldings(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  base::Result<Page> list(const std::string& after, size_t count) override;
  base::Result<std::vector<Holding>> matching(const std::string& bucket, const std::string& key) override;
  base::Result<Holding> find(const std::string& name) override;
  base::Result<Holding> find(const store::ObjectId& id, uint64_t size_bytes) override;
  base::Result<Holding> pin(const store::ObjectId& id, uint64_t size_bytes) override;
  base::Result<Holding> pin(const std::string& name) override;
  base::Result<Holding> unpin(const std::string& name) override;
  Evicted evict(const std::string& name) override;
  bool admits(const store::ObjectId& id, uint64_t bytes) override;
  base::Result<Check> check(const std::string& after, std::chrono::milliseconds duration) override;
  base::Result<Limit> limit() override;
  base::Result<Limit> set_limit(base::SizeOrPercent limit) override;

 private:
  /// Errors: kNotFound.
  base::Result<IndexRow> row_of(const FileKey& key);
  base::Result<Holding> holding_of(const IndexRow& row);
  base::Result<Holding> pin_row(const IndexRow& row, bool may_make);
  /// Whether so much more can be pinned.
  base::Result<void> may_pin(const IndexRow& row, uint64_t bytes);
  /// Visits all rows of the index. Errors: kCacheIo.
  base::Result<void> each_row(const std::function<void(const IndexRow&)>& visit);

  const std::shared_ptr<Core> core_;
  std::mutex pin_mutex_;
};

}  // namespace shardfs::cache
