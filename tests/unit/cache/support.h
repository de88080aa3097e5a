// What the cache's tests share: folders, objects with known bytes, faulty disks, and a second process.
// Thread rule: TestFolder and the disks are thread-safe; Child is confined to one thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/disk.h"
#include "base/metrics.h"
#include "cache/cache.h"

namespace shardfs::cache::test {

inline constexpr uint64_t kMiB = 1 << 20;

/// A folder of its own under TMPDIR or /tmp; removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string path() const { return path_; }
  /// The cache's folder in it, not made.
  std::string cache() const { return path_ + "/cache"; }
  /// What everything under the cache's folder occupies, the folder itself included.
  uint64_t allocated_bytes() const;
  /// Files below the cache's folder whose name ends so.
  std::vector<std::filesystem::path> files(std::string_view suffix) const;

 private:
  std::string path_;
};

store::ObjectId object(const std::string& key, const std::string& version = "v1");
/// The bytes of an object, a fixed function of key and offset.
std::vector<std::byte> bytes_of(const std::string& key, base::ByteRange range);
/// The bytes of one of its blocks.
std::vector<std::byte> block_of(const std::string& key, uint64_t size_bytes, uint32_t block);
/// Fills all blocks that are missing; true if all were granted and written, and the file is complete.
bool fill(CacheFile& file, const std::string& key);
/// Reads the whole file and compares.
bool reads_right(CacheFile& file, const std::string& key);

/// Equal but for what the index may grow or shrink by at any moment, as its thread writes.
bool nearly(uint64_t used_bytes, uint64_t wanted_bytes);

/// One opened cache and what it needs.
struct TestCache {
  explicit TestCache(const TestFolder& folder, uint64_t limit_bytes = 64 * kMiB, std::string boot_id = "boot-1",
                     base::Disk* other_disk = nullptr);
  base::Result<void> open();
  void close() { cache.reset(); }
  Cache* operator->() { return cache.get(); }
  int64_t gauge(std::string_view name) { return metrics.gauge(name).value(); }
  uint64_t counter(std::string_view name) { return metrics.counter(name).value(); }

  base::SystemDisk system_disk;
  base::Disk* disk;
  base::ManualClock clock;
  base::Metrics metrics;
  CacheOptions options;
  std::unique_ptr<Cache> cache;  // opened by the constructor; null if that failed
};

/// Passes everything on, until it is told to fail or to lose what was not synced.
/// Fault model: fail_writes and fail_syncs: the call fails with that errno and changes nothing. cut_power: every
/// write since the last sync of its file is undone; names and lengths stay, as a journal would keep them.
class FaultyDisk : public base::Disk {
 public:
  std::atomic<int> fail_writes{0};                    // an errno; 0: none. Only files whose name ends with fail_suffix
  std::atomic<int> fail_syncs{0};                     // an errno
  std::atomic<uint64_t> available_bytes{UINT64_MAX};  // what space() says at most
  std::string fail_suffix;
  void cut_power();

  base::Result<base::UniqueFd> open(const std::string& path, int flags, uint32_t mode = 0600) override;
  base::Result<void> read_at(int fd, std::span<std::byte> into, uint64_t offset_bytes) override;
  base::Result<void> write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) override;
  base::Result<void> resize(int fd, uint64_t size_bytes) override;
  base::Result<void> punch(int fd, base::ByteRange range) override;
  base::Result<void> sync(int fd) override;
  base::Result<void> sync_directory(const std::string& path) override;
  base::Result<base::FileStat> stat(int fd) override;
  base::Result<base::FileStat> stat(const std::string& path) override;
  base::Result<void> unlink(const std::string& path) override;
  base::Result<void> rename(const std::string& from, const std::string& to) override;
  base::Result<void> make_directories(const std::string& path) override;
  base::Result<std::vector<std::string>> list(const std::string& path) override;
  base::Result<base::DiskSpace> space(const std::string& path) override;

 private:
  struct Written {
    uint64_t inode;
    std::string path;
    uint64_t offset_bytes;
    std::vector<std::byte> before;
  };
  void forget(uint64_t inode);

  base::SystemDisk disk_;
  std::mutex mutex_;  // guards unsynced_
  std::vector<Written> unsynced_;
};

/// Another process with the same cache folder: the program cache_child.
class Child {
 public:
  Child(const TestFolder& folder, uint64_t limit_bytes, const std::string& boot_id = "boot-1");
  ~Child();
  /// Sends one line and gives the line that comes back; "" if it died.
  std::string ask(const std::string& line);
  /// SIGKILL, and waits for its end.
  void kill();

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace shardfs::cache::test
