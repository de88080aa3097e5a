#include "cache/budget.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "cache/ofd_lock.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

constexpr std::array<char, 8> kMagic = {'S', 'H', 'R', 'D', 'B', 'U', 'D', '1'};
constexpr uint32_t kVersion = 1;
constexpr base::ByteRange kPageLock = {Budget::kPageLockAt, Budget::kPageLockAt + 1};

base::ByteRange slot_lock(size_t slot) { return {Budget::kSlotLocksAt + slot, Budget::kSlotLocksAt + slot + 1}; }

constexpr uint64_t mib(uint64_t count) { return count << 20; }

uint64_t less(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

}  // namespace

BudgetUse Budget::Page::use() const {
  BudgetUse use{.committed_bytes = committed_bytes, .index_bytes = index_bytes, .orphaned_bytes = orphaned_bytes};
  for (const auto& slot : slots) use.reserved_bytes += slot.taken != 0 ? slot.reserved_bytes : 0;
  return use;
}

uint64_t Budget::Page::right_checksum() const {
  Page zeroed = *this;
  zeroed.checksum = 0;
  return XXH3_64bits(&zeroed, sizeof(zeroed));
}

bool Budget::Page::sound() const { return magic == kMagic && version == kVersion && checksum == right_checksum(); }

Result<std::unique_ptr<Budget>> Budget::open(base::Disk& disk, const std::string& path, uint64_t limit_bytes,
                                             uint64_t overhead_bytes) {
  std::unique_ptr<Budget> budget(new Budget(disk, limit_bytes, overhead_bytes));
  auto fd = disk.open(path, O_RDWR | O_CREAT);
  if (!fd) return tl::unexpected(fd.error());
  budget->fd_ = std::move(*fd);
  const auto stat = disk.stat(budget->fd());
  if (!stat) return tl::unexpected(stat.error());
  budget->identity_ = *stat;
  if (auto entered = budget->enter(); !entered) return tl::unexpected(entered.error());
  return budget;
}

Result<void> Budget::enter() {
  bool written = false;
  const auto take_slot = [&](Page& page) -> Result<void> {
    const bool alone = first_locked(fd(), {kSlotLocksAt, kSlotLocksAt + kSlots}).empty();
    if (alone && page.clean == 0) page = new_page();  // left by mounts that all died
    if (alone) page.limit_mib = 0;
    folder_limit_ = mib(page.limit_mib);
    collect_dead(page);
    for (size_t i = 0; i < kSlots && slot_ == kSlots; ++i) {
      if (page.slots[i].taken == 0 && try_lock(fd(), LockKind::kExclusive, slot_lock(i))) slot_ = i;
    }
    if (slot_ == kSlots) {
      return base::fail(Code::kCacheIo, "the cache folder is used by 63 mounts, or its file system has no locks");
    }
    page.slots[slot_] = own_slot();
    page.clean = 0;
    was_alone_ = alone;
    unit_bytes_ = page.unit_bytes;
    return {};
  };
  if (auto entered = with_page(take_slot, &written); !entered) return entered;
  if (!written) return base::fail(Code::kCacheIo, "the cache's budget page can't be written");
  // After a power cut the page must not say that the last shutdown was clean.
  return disk_.sync(fd());
}

Budget::~Budget() {
  if (slot_ == kSlots) return;
  const auto left = with_page([&](Page& page) -> Result<void> {
    collect_dead(page);
    page.slots[slot_] = Slot{};
    page.orphaned_bytes += own_reserved_bytes();  // 0, unless the disk failed
    if (count_wanted()) page.count_wanted = 1;    // leaving with a wish unfulfilled
    const bool last = std::all_of(page.slots.begin(), page.slots.end(), [](const Slot& s) { return s.taken == 0; });
    page.clean = last && page.count_wanted == 0 && page.orphaned_bytes == 0 ? 1 : 0;
    return {};
  });
  if (left) static_cast<void>(disk_.sync(fd()));
}

Budget::Page Budget::new_page() const {
  return {.magic = kMagic,
          .version = kVersion,
          .committed_bytes = less(limit_bytes(), own_reserved_bytes()),
          .unit_bytes = unit_bytes_,
          .count_wanted = 1,
          .limit_mib = static_cast<uint32_t>(folder_limit_bytes() / mib(1))};
}

Result<void> Budget::read(Page& page) {
  const auto got = disk_.read_at(fd(), std::as_writable_bytes(std::span(&page, 1)), 0);
  if (got && page.sound()) return {};
  if (!got) {
    const auto stat = disk_.stat(fd());
    if (!stat || stat->size_bytes >= sizeof(Page)) return got;
  }
  if (slot_ != kSlots) base::log_warning("cache: the budget page was damaged; what is used is counted again");
  page = new_page();
  return {};
}

Result<void> Budget::with_page(const std::function<Result<void>(Page&)>& change, bool* written) {
  const std::lock_guard guard(mutex_);
  if (!wait_lock(fd(), LockKind::kExclusive, kPageLock)) {
    return base::fail_errno(Code::kCacheIo, "lock of the cache's budget page", errno);
  }
  Page page;
  auto done = read(page);
  if (done) folder_limit_ = mib(page.limit_mib);
  if (slot_ != kSlots) page.slots[slot_] = own_slot();  // also where somebody made the page anew
  if (done) done = change(page);
  if (done) {
    const bool ours = slot_ != kSlots && page.slots[slot_].taken != 0;
    if (ours) page.slots[slot_] = own_slot();
    page.checksum = page.right_checksum();
    const bool put = disk_.write_at(fd(), std::as_bytes(std::span(&page, 1)), 0).has_value();
    if (page.count_wanted != 0 || !put) count_wanted_.store(true, std::memory_order_relaxed);
    if (written != nullptr) *written = put;
  }
  unlock(fd(), kPageLock);
  return done;
}

Budget::Slot Budget::own_slot() const {
  return {.reserved_bytes = own_reserved_bytes(), .limit_bytes = limit_bytes(), .taken = 1, .pid = pid_};
}

void Budget::collect_dead(Page& page) {
  for (size_t i = 0; i < kSlots; ++i) {
    auto& slot = page.slots[i];
    if (slot.taken == 0 || i == slot_ || !first_locked(fd(), slot_lock(i)).empty()) continue;
    page.orphaned_bytes += slot.reserved_bytes;
    page.count_wanted = 1;
    slot = Slot{};
  }
}

void Budget::want_count() { count_wanted_.store(true, std::memory_order_relaxed); }

void Budget::set_unit_bytes(uint64_t bytes) {
  unit_bytes_ = bytes;
  static_cast<void>(with_page([&](Page& page) -> Result<void> {
    page.unit_bytes = bytes;
    return {};
  }));
}

bool Budget::try_reserve(uint64_t bytes) {
  bool granted = false;
  const auto done = with_page([&](Page& page) -> Result<void> {
    // A refusal writes the page too: it may have found that a mount died, and a count returns what that one reserved.
    if (page.use().sum() + bytes > limit_bytes()) collect_dead(page);
    granted = page.use().sum() + bytes <= limit_bytes();
    if (granted) reserved_.fetch_add(bytes, std::memory_order_relaxed);
    return {};
  });
  return done && granted;
}

void Budget::release(uint64_t bytes) {
  reserved_.fetch_sub(bytes, std::memory_order_relaxed);  // also when the page can't be written any more
  static_cast<void>(with_page([](Page&) -> Result<void> { return {}; }));
}

Result<void> Budget::commit(uint64_t bytes, const Step& step) {
  return with_page([&](Page& page) -> Result<void> {
    if (auto stepped = step(); !stepped) return stepped;
    reserved_.fetch_sub(bytes, std::memory_order_relaxed);
    page.committed_bytes += bytes;
    return {};
  });
}

Result<void> Budget::uncommit(uint64_t bytes, const Step& step) {
  return with_page([&](Page& page) -> Result<void> {
    if (auto stepped = step(); !stepped) return stepped;
    reserved_.fetch_add(bytes, std::memory_order_relaxed);
    page.committed_bytes = less(page.committed_bytes, bytes);
    return {};
  });
}

uint64_t Budget::limit_bytes() const {
  const uint64_t folder_bytes = folder_limit_bytes();
  return less(folder_bytes != 0 ? folder_bytes : own_limit_bytes_, overhead_bytes_);
}

Result<void> Budget::set_folder_limit(uint64_t bytes) {
  bool written = false;
  const auto set = [&](Page& page) -> Result<void> {
    page.limit_mib = static_cast<uint32_t>(std::min<uint64_t>(bytes / mib(1), UINT32_MAX));
    folder_limit_ = mib(page.limit_mib);
    return {};
  };
  if (auto done = with_page(set, &written); !done) return done;
  if (!written) return base::fail(Code::kCacheIo, "the cache's budget page can't be written");
  return {};
}

void Budget::set_index_bytes(uint64_t bytes) {
  static_cast<void>(with_page([&](Page& page) -> Result<void> {
    page.index_bytes = bytes;
    return {};
  }));
}

Result<void> Budget::count(const std::function<Result<uint64_t>()>& measure) {
  return with_page([&](Page& page) -> Result<void> {
    collect_dead(page);
    const auto measured = measure();
    if (!measured) return tl::unexpected(measured.error());
    page.committed_bytes = *measured;
    page.orphaned_bytes = 0;
    page.count_wanted = 0;
    count_wanted_.store(false, std::memory_order_relaxed);
    return {};
  });
}

void Budget::notice_dead() {
  static_cast<void>(with_page([&](Page& page) -> Result<void> {
    collect_dead(page);
    return {};
  }));
}

BudgetUse Budget::use() {
  Page page;
  if (disk_.read_at(fd(), std::as_writable_bytes(std::span(&page, 1)), 0) && page.sound()) {
    folder_limit_ = mib(page.limit_mib);
    return page.use();
  }
  BudgetUse found;
  static_cast<void>(with_page([&](Page& now) -> Result<void> {
    found = now.use();
    return {};
  }));
  return found;
}

}  // namespace shardfs::cache
