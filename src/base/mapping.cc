#include "base/mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

namespace shardfs::base {

// One mapped range. begin is 0 while nothing is in it; the handler looks for a range whose thread has just faulted in
// it, so that one does not change meanwhile.
struct Mapping::Guarded {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<bool> torn{false};
};

// Grows by chunks that are never freed, so that the handler can walk it without a lock.
struct Mapping::Table {
  struct Chunk {
    std::array<Guarded, 1024> entries;
    Chunk* next = nullptr;  // constant once the chunk is the first
  };

  std::atomic<Chunk*> first{nullptr};
  struct sigaction before {};  // constant once the handler is installed
  uintptr_t page_bytes = 0;
  std::mutex mutex;
  std::vector<Guarded*> unused;  // guarded by mutex

  static Table& instance() {
    static Table& table = *new Table;  // outlives all threads
    return table;
  }

  Table() : page_bytes(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE))) {}

  Guarded* add(uintptr_t begin, uint64_t bytes) {
    const std::lock_guard guard(mutex);
    if (first.load(std::memory_order_relaxed) == nullptr) install();
    if (unused.empty()) {
      auto* const chunk = new Chunk;
      chunk->next = first.load(std::memory_order_relaxed);
      for (auto& entry : chunk->entries) unused.push_back(&entry);
      first.store(chunk, std::memory_order_release);
    }
    Guarded* const entry = unused.back();
    unused.pop_back();
    entry->torn = false;
    entry->bytes = bytes;
    entry->begin = begin;
    return entry;
  }

  void remove(Guarded* entry) {
    entry->begin = 0;
    const std::lock_guard guard(mutex);
    unused.push_back(entry);
  }

  void install() {
    struct sigaction action {};
    action.sa_sigaction = &Mapping::on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &before);
  }
};

void Mapping::on_bus_error(int number, siginfo_t* info, void*) noexcept {
  const int error = errno;
  Table& table = Table::instance();
  const bool fault = info->si_code > 0;  // else somebody sent it
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (auto* chunk = table.first.load(std::memory_order_acquire); fault && chunk != nullptr; chunk = chunk->next) {
    for (auto& entry : chunk->entries) {
      const uintptr_t begin = entry.begin;
      if (begin == 0 || at < begin || at - begin >= entry.bytes) continue;
      entry.torn = true;
      const uintptr_t page = at & ~(table.page_bytes - 1);
      // The system call itself: a sanitizer's mmap is not for handlers.
      const long mapped =
          ::syscall(SYS_mmap, page, table.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      errno = error;
      if (mapped != -1) return;
    }
  }
  ::sigaction(number, &table.before, nullptr);
  if (!fault) ::raise(number);  // a fault comes again by itself
  errno = error;
}

Result<Mapping> Mapping::open(int fd, uint64_t bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return fail_errno(Code::kCacheIo, "mapping of a file", errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(mapped);
  mapping.bytes_ = bytes;
  mapping.guarded_ = Table::instance().add(reinterpret_cast<uintptr_t>(mapped), bytes);
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      guarded_(std::exchange(other.guarded_, nullptr)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(guarded_, other.guarded_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  Table::instance().remove(guarded_);
  ::munmap(data_, bytes_);
}

bool Mapping::torn() const { return guarded_ != nullptr && guarded_->torn; }

}  // namespace shardfs::base
