#include "app/slurm_ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/replace_file.h"
#include "control/socket_path.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail_errno;
using base::Result;
using nlohmann::json;

std::string name_of(const std::string& mountpoint) {
  const std::string path = control::lock_path("", mountpoint);  // "/HASH.lock"
  return path.substr(1, path.find('.') - 1);
}

LedgerRecord parse(const std::string& path) {
  LedgerRecord record;
  std::ifstream file(path, std::ios::binary);
  const auto text = std::string(std::istreambuf_iterator<char>(file), {});
  const json found = json::parse(text, nullptr, false);
  if (!found.is_object()) return record;
  try {
    record.mountpoint = found.at("mountpoint");
    record.identity = found.at("identity");
    record.owner = found.at("owner");
    record.remove = found.at("remove").get<std::vector<std::string>>();
    for (const auto& [key, counts] : found.at("jobs").items()) {
      record.jobs[key] = {counts.at("read_bytes"), counts.at("fetched_bytes"), counts.at("demand_bytes"),
                          counts.at("stalled_s")};
    }
  } catch (const json::exception&) {  // of another version, or cut: nobody is known to use it
    return {};
  }
  return record;
}

}  // namespace

Result<std::string> ledger_folder() {
  auto folder = control::runtime_folder();
  if (!folder) return folder;
  const std::string path = *folder + "/slurm";
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(Code::kIo, "make " + path, errno);
  return path;
}

Result<LedgerEntry> LedgerEntry::open(const std::string& folder, const std::string& mountpoint,
                                      std::chrono::steady_clock::time_point deadline) {
  const std::string base = folder + "/" + name_of(mountpoint);
  // The lock file stays: removing it would let two holders be.
  base::UniqueFd lock(::open((base + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return fail_errno(Code::kIo, "open " + base + ".lock", errno);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno(Code::kIo, "lock " + base + ".lock", errno);
    if (std::chrono::steady_clock::now() >= deadline)
      return base::fail(Code::kTimeout, mountpoint + ": another job's prolog or epilog is still at it");
    ::poll(nullptr, 0, 20);
  }
  LedgerEntry entry(base + ".json", std::move(lock));
  entry.record = parse(entry.path_);
  entry.record.mountpoint = mountpoint;
  return entry;
}

Result<void> LedgerEntry::save() {
  if (record.jobs.empty()) {
    ::unlink(path_.c_str());
    return {};
  }
  json jobs = json::object();
  for (const auto& [key, counts] : record.jobs) {
    jobs[key] = {{"read_bytes", counts.read_bytes},
                 {"fetched_bytes", counts.fetched_bytes},
                 {"demand_bytes", counts.demand_bytes},
                 {"stalled_s", counts.stalled_s}};
  }
  const json all = {{"mountpoint", record.mountpoint},
                    {"identity", record.identity},
                    {"owner", record.owner},
                    {"remove", record.remove},
                    {"jobs", std::move(jobs)}};
  const std::string text = all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  return base::replace_file(path_, text, 0600);
}

std::vector<std::string> mountpoints_of(const std::string& folder, const std::string& job_key) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json") continue;
    const LedgerRecord record = parse(entry.path().string());
    if (record.jobs.count(job_key) != 0) found.push_back(record.mountpoint);
  }
  return found;
}

}  // namespace shardfs::app
