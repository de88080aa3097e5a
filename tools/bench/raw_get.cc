// raw_get: what the network and libcurl give without a file system: ranged GETs of whole objects in parallel.
//
//   raw_get CONNECTIONS null|FOLDER URL...       (https: with the CA bundle that $RAW_GET_CA names)
//
// A thread and a keep-alive connection each, one part of 8 MiB at a time, in the order of the URLs. The bytes are
// dropped, or gathered to 256 KiB and written to one sparse file an object in FOLDER. Sizes are asked for beforehand.
// Prints one JSON object; seconds and CPU are of the GETs alone.
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPartBytes = 8 << 20;
constexpr size_t kGatherBytes = 256 << 10;  // Source: measured, a third less CPU than libcurl's own pieces
constexpr long kReceiveBytes = 512 << 10;   // Source: the largest that libcurl 7.88 takes
constexpr long kPatienceSeconds = 60;

struct Part {
  const char* url;
  int file;  // -1: its bytes are dropped
  int64_t begin, end;
};

struct Totals {
  std::atomic<size_t> next_part{0};
  std::atomic<int> failed{0};
  std::atomic<int64_t> first_byte_us{-1};  // since start
  Clock::time_point start;
};

void trust(CURL* handle) {
  if (const char* ca = std::getenv("RAW_GET_CA")) curl_easy_setopt(handle, CURLOPT_CAINFO, ca);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// One connection: owns its handle and the bytes that are not written yet.
class Connection {
 public:
  explicit Connection(Totals& totals) : totals_(totals), handle_(curl_easy_init()) {
    gathered_.reserve(kGatherBytes + static_cast<size_t>(kReceiveBytes));
    curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &Connection::receive);
    curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, kReceiveBytes);
    curl_easy_setopt(handle_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle_, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(handle_, CURLOPT_TIMEOUT, kPatienceSeconds);
    curl_easy_setopt(handle_, CURLOPT_PROXY, "");
    trust(handle_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { curl_easy_cleanup(handle_); }

  void get(const std::vector<Part>& parts) {
    for (size_t i = totals_.next_part++; i < parts.size(); i = totals_.next_part++) {
      part_ = &parts[i];
      received_ = part_->begin;
      const std::string range = std::to_string(part_->begin) + "-" + std::to_string(part_->end - 1);
      curl_easy_setopt(handle_, CURLOPT_URL, part_->url);
      curl_easy_setopt(handle_, CURLOPT_RANGE, range.c_str());
      const bool whole = curl_easy_perform(handle_) == CURLE_OK && received_ == part_->end;
      if (!write_gathered() || !whole) ++totals_.failed;
    }
  }

 private:
  static size_t receive(char* data, size_t one, size_t count, void* self) {
    return static_cast<Connection*>(self)->take({data, one * count});
  }

  size_t take(std::string_view bytes) {
    if (part_->begin == 0) {
      int64_t none = -1;
      const auto now = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - totals_.start).count();
      totals_.first_byte_us.compare_exchange_strong(none, now);
    }
    received_ += static_cast<int64_t>(bytes.size());
    if (part_->file < 0) return bytes.size();
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
    return gathered_.size() < kGatherBytes || write_gathered() ? bytes.size() : 0;
  }

  bool write_gathered() {
    const auto size = static_cast<ssize_t>(gathered_.size());
    const bool done = size == 0 || pwrite(part_->file, gathered_.data(), gathered_.size(), received_ - size) == size;
    gathered_.clear();
    return done;
  }

  Totals& totals_;
  CURL* const handle_;
  const Part* part_ = nullptr;
  int64_t received_ = 0;  // offset in the object of the next byte
  std::vector<char> gathered_;
};

int64_t size_of(const char* url) {
  CURL* const handle = curl_easy_init();
  curl_off_t size = -1;
  curl_easy_setopt(handle, CURLOPT_URL, url);
  curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(handle, CURLOPT_PROXY, "");
  trust(handle);
  if (curl_easy_perform(handle) != CURLE_OK ||
      curl_easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size) != CURLE_OK) {
    size = -1;
  }
  curl_easy_cleanup(handle);
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  const int connections = argc > 3 ? std::atoi(argv[1]) : 0;
  if (connections < 1 || connections > 256) {
    std::fputs("usage: raw_get CONNECTIONS null|FOLDER URL...\n", stderr);
    return 2;
  }
  curl_global_init(CURL_GLOBAL_ALL);
  const std::string_view sink = argv[2];
  std::vector<Part> parts;
  int64_t bytes = 0;
  for (int i = 3; i < argc; ++i) {
    const int64_t size = size_of(argv[i]);
    int file = -1;
    if (sink != "null") {
      const std::string path = std::string(sink) + "/raw_get." + std::to_string(i);
      file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      if (file < 0 || ftruncate(file, size) != 0) return std::perror(path.c_str()), 1;
    }
    if (size <= 0) return std::fprintf(stderr, "no size of %s\n", argv[i]), 1;
    for (int64_t at = 0; at < size; at += kPartBytes)
      parts.push_back({argv[i], file, at, std::min(at + kPartBytes, size)});
    bytes += size;
  }

  Totals totals;
  const double cpu_before = cpu_seconds();
  totals.start = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < connections; ++i) threads.emplace_back([&] { Connection(totals).get(parts); });
  for (auto& thread : threads) thread.join();
  const double seconds = seconds_since(totals.start);
  const double cpu = cpu_seconds() - cpu_before;
  std::printf(
      "{\"mb_per_s\": %.1f, \"seconds\": %.3f, \"first_byte_ms\": %.1f, \"cpu_s_per_gb\": %.3f, \"failed\": %d}\n",
      static_cast<double>(bytes) / seconds / 1e6, seconds, static_cast<double>(totals.first_byte_us) / 1e3,
      cpu / static_cast<double>(bytes) * 1e9, totals.failed.load());
  return totals.failed == 0 ? 0 : 1;
}
