#include "cache/share.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/log.h"
#include "cache/evictor.h"
#include "cache/map_file.h"

namespace shardfs::cache {
namespace {

// Source: a look at 200,000 rows takes about a second.
constexpr std::chrono::seconds kCountedFor{60};
constexpr size_t kRows = 1024;

uint64_t cost_of(const Core& core, const IndexRow& row) { return core.charges.of_object(row.id, row.size_bytes); }

}  // namespace

bool Share::is_of_it(const IndexRow& row, const store::ObjectId& newcomer) const {
  return row.key.name_space == core_.name_space && row.id.bucket == newcomer.bucket &&
         row.id.endpoint == newcomer.endpoint && row.id.key.starts_with(key_prefix_);
}

void Share::count_again(const store::ObjectId& newcomer) {
  counted_ = true;
  counted_at_ = core_.clock.now();
  static_cast<void>(core_.index->write());
  uint64_t bytes = 0;
  FileKey after;
  for (;;) {
    const auto rows = core_.index->rows_after(after, kRows);
    if (!rows) return;  // what was known stays
    if (rows->empty()) break;
    for (const auto& row : *rows) bytes += is_of_it(row, newcomer) ? cost_of(core_, row) : 0;
    after = rows->back().key;
  }
  bytes_ = bytes;
}

void Share::evict_down_to(uint64_t bytes, const store::ObjectId& newcomer) {
  std::optional<IndexRow> after;
  while (bytes_ > bytes) {
    static_cast<void>(core_.index->write());  // what was evicted before is gone from it
    auto rows = core_.index->oldest(after, kRows);
    if (!rows || rows->empty()) return;
    after = rows->back();
    std::erase_if(*rows, [&](const IndexRow& row) { return !is_of_it(row, newcomer); });
    for (const auto& row : core_.evictor->in_order(std::move(*rows), &newcomer)) {
      if (bytes_ <= bytes) return;
      const uint64_t cost = cost_of(core_, row);
      const auto what = core_.evictor->evict(row);
      if (what == Removal::kRemoved || what == Removal::kGone) bytes_ -= std::min(bytes_, cost);
    }
  }
}

bool Share::enter(const store::ObjectId& newcomer, uint64_t bytes) {
  if (!bounded()) return true;
  const Turn::Held turn(turn_);
  const uint64_t most = share_.of(core_.limit_bytes());
  if (bytes > most) return false;
  if (!counted_ || core_.clock.now() - counted_at_ > kCountedFor) count_again(newcomer);
  if (bytes_ + bytes > most) evict_down_to(most - bytes, newcomer);
  if (bytes_ + bytes > most) {
    base::warn_once("cache:share", "this mount's share of the cache, {}, is used up: reads go past it",
                    base::format_bytes(most));
    return false;
  }
  bytes_ += bytes;
  return true;
}

void Share::leave(uint64_t bytes) {
  if (!bounded()) return;
  const Turn::Held turn(turn_);
  bytes_ -= std::min(bytes_, bytes);
}

}  // namespace shardfs::cache
