#include "app/demo_shards.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr size_t kTarBlock = 512;  // Source: POSIX.1-1988, ustar
constexpr size_t kPiece = 1 << 20;
constexpr size_t kBatchPieces = 8;  // Source: about 64 samples of 107 KB, the batch of the Python reader

std::string tar_header(const std::string& name, uint64_t size_bytes) {
  std::string header(kTarBlock, '\0');
  const auto put = [&header](size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<ptrdiff_t>(at));
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size_bytes));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

Result<void> write_all(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t count = ::write(fd, data, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(Code::kIo, "write " + path, errno);
    data += count;
    size -= static_cast<size_t>(count);
  }
  return {};
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What the two threads of one epoch share.
struct Epoch {
  explicit Epoch(const std::atomic<bool>& stop_flag) : stop(stop_flag) {}
  const std::atomic<bool>& stop;
  const Clock::time_point start = Clock::now();
  std::atomic<size_t> next_shard{0};
  std::mutex mutex;  // guards all below
  uint64_t bytes = 0;
  double waited_s = 0;  // by both threads together
  uint64_t pieces = 0;
  double first_batch_s = -1;
  std::optional<base::Error> error;

  void add(size_t count, double waited) {
    std::lock_guard lock(mutex);
    bytes += count;
    waited_s += waited;
    if (++pieces == kBatchPieces) first_batch_s = since(start);
  }
};

Result<void> read_shard(const std::string& path, std::vector<char>& piece, Epoch& epoch) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno(Code::kIo, "open " + path, errno);
  for (;;) {
    if (epoch.stop) return fail(Code::kCancelled, "interrupted");
    const auto asked = Clock::now();
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(Code::kIo, "read " + path, errno);
    if (count == 0) return {};
    epoch.add(static_cast<size_t>(count), since(asked));
  }
}

void read_some(const std::vector<std::string>& paths, Epoch& epoch) noexcept {
  std::vector<char> piece(kPiece);
  for (size_t i = epoch.next_shard++; i < paths.size(); i = epoch.next_shard++) {
    if (auto done = read_shard(paths[i], piece, epoch); !done) {
      std::lock_guard lock(epoch.mutex);
      if (!epoch.error) epoch.error = std::move(done.error());
      return;
    }
  }
}

}  // namespace

Result<void> make_shards(const std::string& folder, unsigned shards, unsigned samples, uint64_t size_bytes,
                         const std::function<void(double)>& progress, const std::atomic<bool>& stop) {
  const uint64_t each = std::max<uint64_t>(1, size_bytes / std::max(1u, samples));
  const size_t sample_bytes = each > 2 * kTarBlock ? each - kTarBlock : each;  // the header counts
  std::vector<uint64_t> words(sample_bytes / 8 + 1);
  std::mt19937_64 random(20261130);
  const std::string padding((kTarBlock - sample_bytes % kTarBlock) % kTarBlock, '\0');
  unsigned made = 0;
  for (unsigned shard = 0; shard < shards; ++shard) {
    const std::string path = fmt::format("{}/shard-{:06}.tar", folder, shard);
    const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return fail_errno(Code::kIo, "make " + path, errno);
    const auto last = static_cast<unsigned>(static_cast<uint64_t>(samples) * (shard + 1) / shards);
    for (; made < last; ++made) {
      if (stop) return fail(Code::kCancelled, "interrupted");
      for (auto& word : words) word = random();
      const std::string header = tar_header(fmt::format("{:08}.bin", made), sample_bytes);
      auto done = write_all(file.get(), header.data(), header.size(), path);
      if (done) done = write_all(file.get(), reinterpret_cast<const char*>(words.data()), sample_bytes, path);
      if (done) done = write_all(file.get(), padding.data(), padding.size(), path);
      if (!done) return done;
    }
    const std::string end(2 * kTarBlock, '\0');
    if (auto done = write_all(file.get(), end.data(), end.size(), path); !done) return done;
    progress(static_cast<double>(shard + 1) / shards);
  }
  return {};
}

Result<EpochResult> read_shards(const std::string& folder, unsigned samples, const std::atomic<bool>& stop) {
  Epoch epoch(stop);
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".tar") paths.push_back(entry.path().string());
  }
  if (error) return fail_errno(Code::kIo, "list " + folder, error.value());
  if (paths.empty()) return fail(Code::kIo, "there are no shards in " + folder);
  std::sort(paths.begin(), paths.end());
  std::thread other([&]() noexcept { read_some(paths, epoch); });
  read_some(paths, epoch);
  other.join();
  if (epoch.error) return tl::unexpected(std::move(*epoch.error));
  EpochResult result;
  result.samples = samples;
  result.bytes = epoch.bytes;
  result.wall_s = since(epoch.start);
  result.time_to_first_batch_s = epoch.first_batch_s < 0 ? result.wall_s : epoch.first_batch_s;
  const double batches = std::max(1.0, static_cast<double>(epoch.pieces) / kBatchPieces);
  result.mean_input_wait_s = epoch.waited_s / batches;
  result.input_wait_fraction = result.wall_s > 0 ? std::min(1.0, epoch.waited_s / 2 / result.wall_s) : 0;
  return result;
}

}  // namespace shardfs::app
