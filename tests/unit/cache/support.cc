#include "support.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cache/map_file.h"

extern char** environ;

namespace shardfs::cache::test {

using base::ByteRange;
using base::Code;
using base::Result;
namespace fs = std::filesystem;

TestFolder::TestFolder() {
  const char* const parent = std::getenv("TMPDIR");
  std::string name = std::string(parent != nullptr ? parent : "/tmp") + "/shardfs-cache-test-XXXXXX";
  path_ = ::mkdtemp(name.data());
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

uint64_t TestFolder::allocated_bytes() const {
  uint64_t bytes = 0;
  const auto add = [&](const fs::path& path) {
    struct ::stat answer;
    if (::lstat(path.c_str(), &answer) == 0) bytes += static_cast<uint64_t>(answer.st_blocks) * 512;
  };
  add(cache());
  std::error_code error;
  for (fs::recursive_directory_iterator at(cache(), error), end; !error && at != end; at.increment(error)) {
    add(at->path());
  }
  return bytes;
}

std::vector<fs::path> TestFolder::files(std::string_view suffix) const {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(cache())) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix)) found.push_back(entry.path());
  }
  return found;
}

store::ObjectId object(const std::string& key, const std::string& version) {
  return {"http://127.0.0.1:9000", "bucket", key, version};
}

std::vector<std::byte> bytes_of(const std::string& key, ByteRange range) {
  uint64_t seed = 14695981039346656037ULL;
  for (const char c : key) seed = (seed ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  std::vector<std::byte> bytes(range.size());
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t word = (seed + (range.begin + i) / 8) * 0x9E3779B97F4A7C15ULL;
    bytes[i] = static_cast<std::byte>(word >> (8 * ((range.begin + i) % 8)));
  }
  return bytes;
}

std::vector<std::byte> block_of(const std::string& key, uint64_t size_bytes, uint32_t block) {
  return bytes_of(key, range_of_block(size_bytes, block));
}

bool fill(CacheFile& file, const std::string& key) {
  for (uint32_t block = 0; block < file.block_count(); ++block) {
    const auto answer = file.begin_fill(block);
    if (answer == FillAnswer::kResident) continue;
    if (answer != FillAnswer::kGranted) return false;
    if (!file.write_block(block, block_of(key, file.size_bytes(), block))) return false;
  }
  const auto finished = file.finish();
  return finished && *finished;
}

bool reads_right(CacheFile& file, const std::string& key) {
  std::vector<std::byte> bytes(file.size_bytes());
  return file.read({0, file.size_bytes()}, bytes) && bytes == bytes_of(key, {0, file.size_bytes()});
}

bool nearly(uint64_t used_bytes, uint64_t wanted_bytes) {
  return std::max(used_bytes, wanted_bytes) - std::min(used_bytes, wanted_bytes) < 128 * 1024;
}

TestCache::TestCache(const TestFolder& folder, uint64_t limit_bytes, std::string boot_id, base::Disk* other_disk)
    : disk(other_disk != nullptr ? other_disk : &system_disk) {
  options.folder = folder.cache();
  options.limit.bytes = limit_bytes;
  options.eviction = Eviction::kLeastRecentlyUsed;  // what most tests reckon with; eviction_test.cc has the other
  options.boot_id = std::move(boot_id);
  static_cast<void>(open());
}

Result<void> TestCache::open() {
  auto opened = Cache::open(options, *disk, clock, metrics);
  if (!opened) return tl::unexpected(opened.error());
  cache = std::move(*opened);
  return {};
}

Result<base::UniqueFd> FaultyDisk::open(const std::string& path, int flags, uint32_t mode) {
  return disk_.open(path, flags, mode);
}

Result<void> FaultyDisk::read_at(int fd, std::span<std::byte> into, uint64_t offset_bytes) {
  return disk_.read_at(fd, into, offset_bytes);
}

Result<void> FaultyDisk::write_at(int fd, std::span<const std::byte> from, uint64_t offset_bytes) {
  std::array<char, 512> name{};
  static_cast<void>(::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name.data(), name.size() - 1));
  if (const int error = fail_writes; error != 0 && std::string_view(name.data()).ends_with(fail_suffix)) {
    return base::fail_errno(error == ENOSPC ? Code::kCacheFull : Code::kCacheIo, "write", error);
  }
  const auto stat = disk_.stat(fd);
  if (!stat) return tl::unexpected(stat.error());
  Written written{stat->inode, name.data(), offset_bytes, {}};
  // What is there before, zeros beyond the end.
  written.before.resize(from.size());
  if (offset_bytes < stat->size_bytes) {
    const uint64_t there = std::min<uint64_t>(from.size(), stat->size_bytes - offset_bytes);
    base::UniqueFd readable(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
    static_cast<void>(disk_.read_at(readable.get(), std::span(written.before).first(there), offset_bytes));
  }
  auto done = disk_.write_at(fd, from, offset_bytes);
  const std::lock_guard guard(mutex_);
  unsynced_.push_back(std::move(written));
  return done;
}

void FaultyDisk::forget(uint64_t inode) {
  const std::lock_guard guard(mutex_);
  std::erase_if(unsynced_, [&](const Written& written) { return written.inode == inode; });
}

void FaultyDisk::cut_power() {
  const std::lock_guard guard(mutex_);
  for (auto at = unsynced_.rbegin(); at != unsynced_.rend(); ++at) {
    base::UniqueFd fd(::open(at->path.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.valid()) static_cast<void>(disk_.write_at(fd.get(), at->before, at->offset_bytes));
  }
  unsynced_.clear();
}

Result<void> FaultyDisk::resize(int fd, uint64_t size_bytes) { return disk_.resize(fd, size_bytes); }

Result<void> FaultyDisk::punch(int fd, ByteRange range) { return disk_.punch(fd, range); }

Result<void> FaultyDisk::sync(int fd) {
  if (const int error = fail_syncs; error != 0) return base::fail_errno(Code::kCacheIo, "sync", error);
  const auto stat = disk_.stat(fd);
  if (stat) forget(stat->inode);
  return {};
}

Result<void> FaultyDisk::sync_directory(const std::string&) { return {}; }

Result<base::FileStat> FaultyDisk::stat(int fd) { return disk_.stat(fd); }

Result<base::FileStat> FaultyDisk::stat(const std::string& path) { return disk_.stat(path); }

Result<void> FaultyDisk::unlink(const std::string& path) {
  if (const auto stat = disk_.stat(path)) forget(stat->inode);
  return disk_.unlink(path);
}

Result<void> FaultyDisk::rename(const std::string& from, const std::string& to) {
  {
    const std::lock_guard guard(mutex_);
    for (auto& written : unsynced_) {
      if (written.path == from) written.path = to;
    }
  }
  return disk_.rename(from, to);
}

Result<void> FaultyDisk::make_directories(const std::string& path) { return disk_.make_directories(path); }

Result<std::vector<std::string>> FaultyDisk::list(const std::string& path) { return disk_.list(path); }

Result<base::DiskSpace> FaultyDisk::space(const std::string& path) {
  auto space = disk_.space(path);
  if (space) space->available_bytes = std::min(space->available_bytes, available_bytes.load());
  return space;
}

Child::Child(const TestFolder& folder, uint64_t limit_bytes, const std::string& boot_id) {
  std::array<int, 2> to;
  std::array<int, 2> from;
  if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  std::string program = CACHE_CHILD;
  std::string path = folder.cache();
  std::string limit = std::to_string(limit_bytes);
  std::string boot = boot_id;
  std::array<char*, 5> arguments = {program.data(), path.data(), limit.data(), boot.data(), nullptr};
  if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  to_ = to[1];
  from_ = from[0];
}

Child::~Child() {
  if (to_ >= 0) ::close(to_);
  if (from_ >= 0) ::close(from_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::string Child::ask(const std::string& line) {
  const std::string sent = line + "\n";
  if (::write(to_, sent.data(), sent.size()) != static_cast<ssize_t>(sent.size())) return "";
  std::string answer;
  char c = 0;
  while (::read(from_, &c, 1) == 1 && c != '\n') answer += c;
  return answer;
}

void Child::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace shardfs::cache::test
