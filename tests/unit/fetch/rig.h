// Rig: a Fetcher between a store, a disk and a cache that the test drives by hand. Thread rule: confined to the test.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "fakes.h"
#include "fetch/fetcher.h"

namespace shardfs::test {

using base::ByteRange;
using base::Code;

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kKiB = 1 << 10;

struct Answer {
  int calls = 0;
  std::vector<std::byte> bytes;
  std::optional<Code> error;
};

struct Rig {
  explicit Rig(bool cached, uint64_t memory = 64 * kMiB, unsigned connections = 16) {
    options.part_bytes = 8 * kMiB;
    options.memory_bytes = memory;
    options.connections = connections;
    fetcher = fetch::Fetcher::make(options, {store, cached ? &cache : nullptr, disk, timer, clock, metrics});
    fetcher->on_complete([this](const store::ObjectInfo&) { ++completed; });
    fetcher->on_changed([this](const store::ObjectInfo&) { ++changed; });
  }
  ~Rig() { shut_down(); }
  /// May be repeated.
  void shut_down() {
    // Transfers end by themselves when they are cancelled, as the real store does; writes run on a disk thread.
    std::atomic<bool> over{false};
    std::thread store_thread([&] {
      while (!over) {
        for (const auto& get : store.open())
          if (get->cancelled) get->end(base::fail(Code::kCancelled, "cancelled"));
        disk.run();
        std::this_thread::yield();
      }
    });
    fetcher->shut_down();
    over = true;
    store_thread.join();
    CHECK(metrics.gauge("fetch_parked_reads").value() == 0);
    CHECK(metrics.gauge("fetch_parts").value() == 0);
    CHECK(metrics.gauge("fetch_memory_bytes").value() == 0);
    CHECK(metrics.gauge("fetch_disk_writes").value() == 0);
    if (cache.file) CHECK(cache.file->filling.empty());
  }
  /// Not opened by a reader yet.
  std::shared_ptr<fetch::SourceFile> find(const std::string& key, uint64_t size) {
    return fetcher->open({key, size, "\"e\"", {}, "", false});
  }
  std::shared_ptr<fetch::SourceFile> open(uint64_t size, const std::string& key = "dir/key") {
    auto file = find(key, size);
    file->opened(1);
    return file;
  }
  /// Returns when the timer has run what was due by now, and twice what looks for late parts.
  void pass_ticks() {
    std::promise<void> passed;
    timer.schedule(std::chrono::milliseconds(25), [&] { passed.set_value(); });
    passed.get_future().wait();
  }
  std::shared_ptr<fetch::ParkedRead> read(fetch::SourceFile& file, ByteRange range, Answer& answer) {
    return file.read(range, 1, [&answer](base::Result<fetch::Pieces> result) {
      ++answer.calls;
      if (!result) {
        answer.error = result.error().code;
        return;
      }
      for (const iovec& piece : *result) {
        const auto* data = static_cast<const std::byte*>(piece.iov_base);
        answer.bytes.insert(answer.bytes.end(), data, data + piece.iov_len);
      }
    });
  }
  static bool right(const Answer& answer, ByteRange range) {
    if (answer.calls != 1 || answer.error || answer.bytes.size() != range.size()) return false;
    for (uint64_t i = 0; i < range.size(); ++i)
      if (answer.bytes[i] != byte_at(range.begin + i)) return false;
    return true;
  }
  /// Reads the file from begin to end in the kernel's pieces and compares every byte.
  void read_all(fetch::SourceFile& file) {
    const uint64_t size = file.info().size_bytes;
    for (uint64_t at = 0; at < size; at += 128 * kKiB) {
      Answer answer;
      const ByteRange range{at, std::min(size, at + 128 * kKiB)};
      read(file, {at, at + 128 * kKiB}, answer);
      while (answer.calls == 0) {
        const auto open = store.open();
        REQUIRE_FALSE(open.empty());
        open.front()->finish();
        disk.run();
      }
      REQUIRE(right(answer, range));
    }
  }
  uint64_t counter(const char* name, const char* label = "") { return metrics.counter(name, label).value(); }

  base::ManualClock clock;
  base::Metrics metrics;
  base::Timer timer{"test"};
  ManualStore store;
  ManualExecutor disk;
  FakeCache cache;
  fetch::FetchOptions options;
  std::unique_ptr<fetch::Fetcher> fetcher;
  int completed = 0, changed = 0;
};

}  // namespace shardfs::test
