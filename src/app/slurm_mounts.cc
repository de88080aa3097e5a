#include "app/slurm_mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/mountpoint.h"
#include "app/slurm_step.h"
#include "base/units.h"
#include "control/socket_path.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;
using nlohmann::json;

// Source: what `shardfs umount --force` needs beyond its time-out: five seconds for the abort, five for the kill.
constexpr std::chrono::milliseconds kForced{12000};

double number(const json& object, const char* key) {
  const auto place = object.is_object() ? object.find(key) : object.end();
  return place != object.end() && place->is_number() ? place->get<double>() : 0;
}

/// Nothing if no mount answers there within the limit.
std::optional<MountCounts> counts_of(const std::string& mountpoint, std::chrono::milliseconds limit) {
  auto client = ControlClient::connect(mountpoint, limit);
  if (!client) return std::nullopt;
  const auto answer = client->stats();
  if (!answer) return std::nullopt;
  const json stats = json::parse(*answer, nullptr, false);
  if (!stats.is_object()) return std::nullopt;
  const json fetched = stats.value("fetched_bytes", json::object());
  MountCounts counts;
  counts.read_bytes = static_cast<uint64_t>(number(stats, "read_bytes") + number(stats, "passthrough_open_bytes"));
  counts.fetched_bytes = static_cast<uint64_t>(number(fetched, "total"));
  counts.demand_bytes = static_cast<uint64_t>(number(fetched, "demand"));
  counts.stalled_s = number(stats.value("stall_seconds", json::object()), "sum");
  return counts;
}

std::string summary_of(const std::string& node, const std::string& mountpoint, const MountCounts& begin,
                       const MountCounts& end, size_t others) {
  const auto grown = [](uint64_t from, uint64_t to) { return to - std::min(from, to); };
  const uint64_t read = grown(begin.read_bytes, end.read_bytes);
  const uint64_t demand = std::min(read, grown(begin.demand_bytes, end.demand_bytes));
  const std::string ratio =
      read == 0 ? "-" : fmt::format("{:.3f}", 1.0 - static_cast<double>(demand) / static_cast<double>(read));
  return fmt::format("shardfs: {}: {}: read {}, from the store {}, hit ratio {} (estimated), readers waited {:.1f} s{}",
                     node, mountpoint, base::format_bytes(read),
                     base::format_bytes(grown(begin.fetched_bytes, end.fetched_bytes)), ratio,
                     std::max(0.0, end.stalled_s - begin.stalled_s),
                     others > 0 ? fmt::format("; shared with {} other jobs, theirs included", others) : "");
}

// What two jobs must have in common to share a mount.
std::string identity_of(const WantedMount& wanted, const SlurmJob& job) {
  json identity = {{"source", wanted.source}, {"options", wanted.options}, {"environment", wanted.environment_file}};
  if (!wanted.shared) identity["uid"] = job.uid;
  if (wanted.own) identity["keys"] = {wanted.credentials_file, wanted.profile};
  return identity.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<void> add_environment_file(const std::string& path, std::vector<std::string>& environment) {
  std::ifstream file(path);
  if (!file) return fail_errno(Code::kInvalid, "the environment-file " + path, errno);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.find('=') == std::string::npos) continue;
    environment.push_back(line);
  }
  return {};
}

// For /bin/sh.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  // Of several lines the last says why; notes come before it.
  const size_t last = text.rfind('\n');
  if (last != std::string::npos) text.erase(0, last + 1);
  return text.starts_with("shardfs: ") ? text.substr(9) : text;
}

}  // namespace

Result<void> make_mountpoint(const std::string& path) {
  std::string at;
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part.empty()) continue;
    at += "/" + part.string();
    if (::mkdir(at.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno(Code::kIo, "make " + at, errno);
    struct stat found {};
    if (::lstat(at.c_str(), &found) != 0) return fail_errno(Code::kIo, "look at " + at, errno);
    if (!S_ISDIR(found.st_mode)) return fail(Code::kNotDirectory, at + " is not a folder (or a link to one)");
    if (found.st_uid != 0 || ((found.st_mode & 022) != 0 && (found.st_mode & S_ISVTX) == 0))
      return fail(Code::kPermission, fmt::format("{} may be changed by others than root: no place for a mount", at));
  }
  return {};
}

Result<void> SlurmMounts::write_profile(const WantedMount& wanted, const std::string& path) {
  std::vector<std::string> command = {
      this_program(),           "slurm",     "credentials", "--uid", std::to_string(job_.uid), "--gid",
      std::to_string(job_.gid), "--profile", wanted.profile};
  if (!wanted.credentials_file.empty()) command.insert(command.end(), {"--file", wanted.credentials_file});
  const auto given = run_step(command, daemon_environment(), site_.command_timeout);
  if (!given) return fail(Code::kPermission, "the job's keys: " + given.error().message);
  if (given->exit_code != 0) return fail(Code::kPermission, "the job's keys: " + one_line(given->output));
  // The daemon asks in the same way when it needs new ones: no key is ever written down.
  std::string text = "[job]\ncredential_process =";
  for (const auto& word : command) text += " " + quoted(word);
  text += "\n";
  ::unlink(path.c_str());
  const base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno(Code::kIo, "write " + path, errno);
  return {};
}

Result<void> SlurmMounts::force_away(const std::string& mountpoint) {
  const auto limit = site_.umount_timeout;
  const auto done =
      run_step({this_program(), "umount", "--force", "--timeout", fmt::format("{}ms", limit.count()), mountpoint},
               daemon_environment(), limit + kForced);
  if (!done) return tl::unexpected(done.error());
  if (done->exit_code != 0) return fail(Code::kIo, one_line(done->output));
  return {};
}

Result<void> SlurmMounts::mount(const WantedMount& wanted, LedgerRecord& record) {
  if (auto made = make_mountpoint(wanted.mountpoint); !made) return made;
  auto environment = daemon_environment();
  std::vector<std::string> command = scope_command(site_.scope, wanted.mountpoint);
  command.insert(command.end(), {this_program(), "mount", wanted.source, wanted.mountpoint, "--allow-other=true"});
  SettingValues options = wanted.options;
  if (!wanted.shared) {
    std::string& labels = options["metrics-labels"];
    labels += fmt::format("{}slurm_job={},slurm_user={}", labels.empty() ? "" : ",", job_.id, job_.user);
  }
  for (const auto& [name, value] : options) command.push_back(fmt::format("--{}={}", name, value));
  if (!wanted.shared) {
    command.insert(command.end(), {fmt::format("--uid={}", job_.uid), fmt::format("--gid={}", job_.gid),
                                   "--dir-mode=0500", "--file-mode=0400"});
  }
  if (wanted.own) {
    // Nothing of the node's own is within reach: no home, no profile but this, no instance metadata.
    const std::string profile = fmt::format("{}/profile-{}-{}-{}", folder_, job_.id, job_.node, wanted.name);
    if (auto written = write_profile(wanted, profile); !written) return written;
    record.remove = {profile, wanted.mountpoint, std::filesystem::path(wanted.mountpoint).parent_path().string()};
    command.push_back("--profile=job");
    environment.insert(environment.end(), {"HOME=/nonexistent", "AWS_SHARED_CREDENTIALS_FILE=" + profile,
                                           "AWS_CONFIG_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true"});
  } else {
    environment.emplace_back("HOME=/root");
    if (!wanted.environment_file.empty()) {
      if (auto added = add_environment_file(wanted.environment_file, environment); !added) return added;
    }
  }
  const auto done = run_step(command, environment, site_.mount_timeout);
  if (!done) return tl::unexpected(done.error());
  if (done->exit_code != 0) return fail(Code::kIo, one_line(done->output));
  return {};
}

Result<void> SlurmMounts::ensure(const WantedMount& wanted) {
  const auto patience = site_.mount_timeout + site_.umount_timeout;
  auto entry = LedgerEntry::open(folder_, wanted.mountpoint, std::chrono::steady_clock::now() + patience);
  if (!entry) return tl::unexpected(std::move(entry.error()));
  LedgerRecord& record = entry->record;
  const std::string identity = identity_of(wanted, job_);
  auto counts = counts_of(wanted.mountpoint, site_.command_timeout);
  if (counts && record.identity == identity) {
    record.jobs.emplace(job_.key(), *counts);
    return entry->save();
  }
  if (counts && record.jobs.empty()) {
    // Not Slurm's: mounted at boot, or by hand. It stays when the job ends.
    const auto state = control::read_state(folder_.substr(0, folder_.rfind('/')), wanted.mountpoint);
    if (state && state->source == wanted.source && wanted.shared) return {};
    return fail(Code::kInvalid, fmt::format("{} is in use by a mount that no job asked for", wanted.mountpoint));
  }
  if (counts) return fail(Code::kInvalid, fmt::format("{} is in use by {}", wanted.mountpoint, record.owner));
  if (const auto found = find_mount(wanted.mountpoint); found && found->of_shardfs()) {
    if (auto away = force_away(wanted.mountpoint); !away) return away;
  }
  if (record.identity != identity) record.jobs.clear();  // of a mount that died
  for (auto& [key, begin] : record.jobs) begin = {};
  record.identity = identity;
  record.owner = fmt::format("job {} of {}", job_.id, job_.user);
  record.remove.clear();
  auto mounted = mount(wanted, record);
  if (!mounted) {
    for (const auto& path : record.remove) ::remove(path.c_str());
    return mounted;
  }
  counts = counts_of(wanted.mountpoint, site_.command_timeout);
  record.jobs[job_.key()] = counts.value_or(MountCounts{});
  return entry->save();
}

std::optional<SlurmMounts::Released> SlurmMounts::release(const std::string& mountpoint) {
  const auto patience = site_.mount_timeout + site_.umount_timeout;
  auto entry = LedgerEntry::open(folder_, mountpoint, std::chrono::steady_clock::now() + patience);
  if (!entry) return Released{"", std::move(entry.error())};
  LedgerRecord& record = entry->record;
  const auto job = record.jobs.find(job_.key());
  if (job == record.jobs.end()) return std::nullopt;
  Released released;
  const MountCounts begin = job->second;
  record.jobs.erase(job);
  if (const auto end = counts_of(mountpoint, site_.command_timeout)) {
    released.summary = summary_of(job_.node, mountpoint, begin, *end, record.jobs.size());
  }
  if (record.jobs.empty()) {
    if (auto away = force_away(mountpoint); !away) released.error = std::move(away.error());
    for (const auto& path : record.remove) ::remove(path.c_str());
  }
  if (auto saved = entry->save(); !saved && !released.error) released.error = std::move(saved.error());
  return released;
}

}  // namespace shardfs::app
