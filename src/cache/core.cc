#include "cache/core.h"

#include <cerrno>

#include "base/log.h"
#include "cache/evictor.h"
#include "cache/file_table.h"
#include "cache/share.h"

namespace shardfs::cache {

void Health::note_write_failure(const base::Error& error) {
  errors_.add();
  const bool short_of_handles = error.sys_errno == EMFILE || error.sys_errno == ENFILE || error.sys_errno == ENOMEM;
  const char* const subject = short_of_handles                       ? "cache:handles"
                              : error.code == base::Code::kCacheFull ? "cache:full"
                                                                     : "cache:io";
  base::warn_once(subject, "the cache can't take data now, reads go on past it: {}", error.message);
  if (!short_of_handles) until_ = (clock_.now() + kBackOff).time_since_epoch().count();
}

Core::Core(base::Disk& disk_in, const base::Clock& clock_in, base::Metrics& metrics, Folder folder_in,
           std::string space)
    : disk(disk_in),
      clock(clock_in),
      folder(std::move(folder_in)),
      name_space(std::move(space)),
      used_gauge(metrics.gauge("cache_used_bytes")),
      limit_gauge(metrics.gauge("cache_limit_bytes")),
      reserved_gauge(metrics.gauge("cache_reserved_bytes")),
      evicted_files(metrics.counter("cache_evicted_files")),
      evicted_bytes(metrics.counter("cache_evicted_bytes")),
      bad_blocks(metrics.counter("cache_bad_blocks")),
      checked_bytes(metrics.counter("cache_checked_bytes")),
      written_bytes(metrics.counter("cache_written_bytes")),
      refused_blocks(metrics.counter("cache_refused_blocks")),
      health(clock_in, metrics.counter("cache_write_errors")) {}

Core::~Core() {
  if (index) static_cast<void>(index->write());
  index.reset();  // before the budget, whose descriptor it locks with
}

int64_t Core::wall_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall_now().time_since_epoch()).count();
}

uint64_t Core::limit_bytes() const {
  const uint64_t folder_bytes = budget->folder_limit_bytes();
  return folder_bytes != 0 ? folder_bytes : own_limit_bytes;
}

bool Core::folder_is_ours() {
  const auto stat = disk.stat(folder.budget_path());
  return stat && stat->inode == budget->identity().inode && stat->device == budget->identity().device;
}

}  // namespace shardfs::cache
