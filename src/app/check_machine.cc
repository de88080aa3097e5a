#include "app/check_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/child_process.h"
#include "base/disk.h"
#include "base/units.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

using std::chrono::steady_clock;
using Verdict = CheckRow::Verdict;

constexpr size_t kPieceBytes = 4 << 20;
constexpr size_t kMostBytes = 256 << 20;
constexpr std::chrono::seconds kMeasureFor{2};
// Below it the disk, not the network, is what an epoch waits for. Source: one connection of design section 8.
constexpr double kSlowDisk = 90e6;

std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) out.emplace_back(*variable);
  return out;
}

struct Ended {
  int code = -1;
  std::string said;
};

Ended run_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Ended out;
  auto child = ChildProcess::start(command, own_environment(), true);
  if (!child) return {-1, child.error().message};
  const auto code = child->wait(
      -1, [&](const std::string& line) { out.said = line; }, [] {});
  out.code = code ? *code : -1;
  if (!code) out.said = code.error().message;
  return out;
}

bool can_run(const char* program) {
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    if (::access((folders.substr(begin, end - begin) + "/" + program).c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

std::string strip_name(const std::string& line) {
  constexpr std::string_view kName = "shardfs: ";
  return line.starts_with(kName) ? line.substr(kName.size()) : line;
}

double rate(size_t bytes, steady_clock::time_point since) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(steady_clock::now() - since).count();
}

CheckRow measure_disk(const std::string& folder) {
  const base::UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const auto failed = [&](const char* what) {
    return CheckRow{Verdict::kFailed, "cache disk", fmt::format("{} in {}: {}", what, folder, std::strerror(errno)),
                    "choose another --cache-dir, or --cache-size 0 for none"};
  };
  if (!file.valid()) return failed("make a file");
  const auto piece = std::make_unique<char[]>(kPieceBytes);
  std::memset(piece.get(), 0x5a, kPieceBytes);
  size_t written = 0;
  const auto write_begin = steady_clock::now();
  while (written < kMostBytes && steady_clock::now() - write_begin < kMeasureFor) {
    const ssize_t count = ::write(file.get(), piece.get(), kPieceBytes);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  if (written == 0 || ::fdatasync(file.get()) != 0) return failed("write");
  const double write_rate = rate(written, write_begin);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  size_t read = 0;
  const auto read_begin = steady_clock::now();
  while (read < written && steady_clock::now() - read_begin < kMeasureFor) {
    const ssize_t count = ::pread(file.get(), piece.get(), kPieceBytes, static_cast<off_t>(read));
    if (count <= 0) break;
    read += static_cast<size_t>(count);
  }
  if (read == 0) return failed("read");
  const double read_rate = rate(read, read_begin);
  const bool slow = write_rate < kSlowDisk || read_rate < kSlowDisk;
  return {slow ? Verdict::kWarning : Verdict::kOk, "cache disk",
          fmt::format("writes {:.0f} MB/s, reads {:.0f} MB/s", write_rate / 1e6, read_rate / 1e6),
          slow ? "slower than one connection to a store: put --cache-dir on a local NVMe disk" : ""};
}

}  // namespace

std::vector<CheckRow> check_fuse() {
  const CheckRow no_passthrough{Verdict::kSkipped, "passthrough", "nothing can be mounted", {}};
  const base::UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device.valid()) {
    return {{Verdict::kFailed, "fuse", fmt::format("/dev/fuse: {}", std::strerror(errno)),
             errno == ENOENT ? "load the kernel's module (modprobe fuse); in a container, give it the device"
                             : "in a container, give it the device; else check the rights of /dev/fuse"},
            no_passthrough};
  }
  if (::geteuid() != 0 && !can_run("fusermount3")) {
    return {{Verdict::kFailed, "fuse", "fusermount3 is not there, and you are not root", "install the package fuse3"},
            no_passthrough};
  }
  utsname system{};
  ::uname(&system);
  return {{Verdict::kOk, "fuse", fmt::format("/dev/fuse opens; Linux {}", system.release), {}}};
}

std::vector<CheckRow> check_mount(const std::string& source, const std::vector<std::string>& flags) {
  const CheckRow no_passthrough{Verdict::kSkipped, "passthrough", "there is no mount", {}};
  std::string folder = (std::filesystem::temp_directory_path() / "shardfs-check-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return {{Verdict::kFailed, "mount", fmt::format("make {}: {}", folder, std::strerror(errno)), "set TMPDIR"},
            no_passthrough};
  }
  std::vector<std::string> arguments{"mount", source, folder};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Ended mounted = run_self(arguments);
  std::vector<CheckRow> rows;
  if (mounted.code != 0) {
    rows = {{Verdict::kFailed, "mount", strip_name(mounted.said), {}}, no_passthrough};
  } else {
    rows.push_back({Verdict::kOk, "mount", "mounted and answered", {}});
    auto client = ControlClient::connect(folder);
    const auto answer = client ? client->stats() : ControlResult<std::string>(tl::unexpected(client.error()));
    const auto stats = nlohmann::json::parse(answer.value_or(""), nullptr, false);
    if (!stats.is_object()) {
      rows.push_back({Verdict::kFailed, "passthrough", answer ? "no answer" : answer.error().message, {}});
    } else if (stats.value("passthrough", false)) {
      rows.push_back({Verdict::kOk, "passthrough", "on: the kernel reads complete files itself", {}});
    } else {
      rows.push_back({Verdict::kWarning, "passthrough", "off: " + stats.value("passthrough_reason", ""),
                      "the page cache does its work; passthrough needs Linux 6.9, libfuse 3.17, root, and a cache"});
    }
    const Ended ended = run_self({"umount", "--lazy", folder});
    if (ended.code != 0) rows.front() = {Verdict::kFailed, "mount", strip_name(ended.said), "shardfs umount " + folder};
  }
  ::rmdir(folder.c_str());
  return rows;
}

std::vector<CheckRow> check_cache(const MountOptions& options) {
  if (options.cache_off()) return {{Verdict::kOk, "cache space", "no cache: --cache-size 0", {}}};
  std::filesystem::path folder = options.cache_folder;
  std::error_code error;
  while (!std::filesystem::is_directory(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  base::SystemDisk disk;
  const auto space = disk.space(folder.string());
  if (!space) {
    return {{Verdict::kFailed, "cache space", space.error().message, "choose another --cache-dir"}};
  }
  const uint64_t limit = options.cache_limit.of(space->total_bytes);
  const uint64_t floor = options.cache_min_free.of(space->total_bytes);
  const uint64_t usable = space->available_bytes > floor ? space->available_bytes - floor : 0;
  CheckRow row{
      Verdict::kOk,
      "cache space",
      fmt::format("{}: limit {}, {} free, of which {} stay free", options.cache_folder, base::format_bytes(limit),
                  base::format_bytes(space->available_bytes), base::format_bytes(floor)),
      {}};
  if (usable < limit / 10) {
    row.verdict = Verdict::kWarning;
    row.advice = "the disk is nearly full (the cache itself may fill it): free some, or choose another --cache-dir";
  }
  return {row, measure_disk(folder.string())};
}

}  // namespace shardfs::app
