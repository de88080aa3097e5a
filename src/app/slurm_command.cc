#include <fmt/format.h>
#include <syslog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "app/command.h"
#include "app/message.h"
#include "app/slurm_job.h"
#include "app/slurm_ledger.h"
#include "app/slurm_mounts.h"
#include "app/slurm_site.h"
#include "app/slurm_step.h"
#include "app/slurm_user.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;

struct Arguments {
  std::string site = "/etc/shardfs/slurm.toml";
  std::string on_failure = "drain";
  SlurmUser user;
  std::string profile = "default";
  std::string file;
  std::string line;
};

std::optional<std::string> variable(const std::string& name) {
  const char* const value = ::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::string> whole_environment() {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

Result<SlurmSite> read_site(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::fail_errno(Code::kInvalid, "read " + path, errno);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return base::fail_errno(Code::kInvalid, "read " + path, EISDIR);
  return parse_slurm_site({std::istreambuf_iterator<char>(file), {}}, path);
}

// For the node's log: slurmd keeps what a failing script prints, the system's log the rest.
void log_on_node(int level, const std::string& text) {
  print_error(text);
  ::openlog("shardfs", LOG_PID, LOG_DAEMON);
  ::syslog(level, "%s", text.c_str());
  ::closelog();
}

// Where a job and its node are told things. Nothing here fails: a job without an output file is told nothing.
class Audience {
 public:
  Audience(const SlurmJob& job, std::chrono::milliseconds limit) : job_(job), limit_(limit) {}

  void say_in_output(const std::string& line) {
    if (!path_) path_ = find_path();
    if (path_->empty()) return;
    const auto said = run_step({this_program(), "slurm", "say", "--uid", std::to_string(job_.uid), "--gid",
                                std::to_string(job_.gid), *path_, line},
                               daemon_environment(), limit_);
    if (!said || said->exit_code != 0)
      log_on_node(LOG_NOTICE, fmt::format("job {}: can't write to its output {}", job_.id, *path_));
  }
  void drain(const std::string& why) {
    slurm({"scontrol", "update", "NodeName=" + job_.node, "State=DRAIN", "Reason=" + why.substr(0, 200)});
  }
  void cancel() { slurm({"scancel", job_.id}); }

 private:
  std::string find_path() {
    if (std::string path = output_file(job_); !path.empty()) return path;
    const auto shown = run_step({"scontrol", "show", "job", "-o", job_.id}, whole_environment(), limit_);
    return shown && shown->exit_code == 0 ? output_file(shown->output) : std::string();
  }
  void slurm(const std::vector<std::string>& command) {
    const auto done = run_step(command, whole_environment(), limit_);
    if (done && done->exit_code == 0) return;
    log_on_node(LOG_ERR, fmt::format("{}: {}", command.front(), done ? done->output : done.error().message));
  }
  const SlurmJob& job_;
  const std::chrono::milliseconds limit_;
  std::optional<std::string> path_;
};

// The job's failure, told to everybody; the script's exit code.
int fail_job(Audience& audience, const SlurmJob& job, OnFailure policy, const std::string& why) {
  const std::string line = fmt::format("{}: job {}: {}", job.node, job.id, why);
  log_on_node(LOG_ERR, line);
  audience.say_in_output("shardfs: " + line);
  switch (policy) {
    case OnFailure::kDrain: audience.drain("shardfs: " + why); return kExitFailed;
    case OnFailure::kCancel: audience.cancel(); return kExitOk;
    case OnFailure::kContinue: return kExitOk;
  }
  return kExitFailed;
}

bool allows(const std::vector<std::string>& partitions, const std::string& partition) {
  return partitions.empty() || std::find(partitions.begin(), partitions.end(), partition) != partitions.end();
}

std::string expand(std::string path, const SlurmJob& job) {
  for (const auto& [mark, value] :
       {std::pair<std::string, std::string>{"{job}", job.id}, {"{user}", job.user}, {"{node}", job.node}}) {
    for (size_t at = 0; (at = path.find(mark, at)) != std::string::npos; at += value.size())
      path.replace(at, mark.size(), value);
  }
  return path;
}

// What the job gets. Errors: kInvalid, the job's own.
Result<std::vector<WantedMount>> plan(const SlurmSite& site, const SlurmJob& job, const SlurmRequest& request) {
  std::vector<WantedMount> wanted;
  for (const SiteMount& mount : site.mounts) {
    const bool asked =
        std::find(request.site_mounts.begin(), request.site_mounts.end(), mount.name) != request.site_mounts.end();
    const bool allowed = allows(mount.partitions, job.partition);
    if (asked && !allowed) {
      return fail(Code::kInvalid, fmt::format("shardfs:{} is not for the partition {}", mount.name, job.partition));
    }
    if (!asked && !(mount.for_all_jobs && allowed)) continue;
    if (!is_mount_name(job.user)) return fail(Code::kInvalid, "the name of the job's user can't be part of a path");
    WantedMount each;
    each.name = mount.name;
    each.source = mount.source;
    each.mountpoint = expand(mount.path, job);
    each.shared = mount.shared;
    each.options = mount.options;
    each.environment_file = mount.environment_file;
    each.on_failure = mount.on_failure.value_or(site.on_failure);
    wanted.push_back(std::move(each));
  }
  for (const auto& name : request.site_mounts) {
    const bool known =
        std::any_of(site.mounts.begin(), site.mounts.end(), [&](const SiteMount& mount) { return mount.name == name; });
    if (!known) return fail(Code::kInvalid, fmt::format("this cluster has no mount named {} (shardfs:{})", name, name));
  }
  if (!request.own_mounts.empty() && !(site.job_mounts && allows(site.job_partitions, job.partition))) {
    return fail(Code::kInvalid,
                fmt::format("this cluster does not let jobs of the partition {} define mounts", job.partition));
  }
  for (const auto& own : request.own_mounts) {
    WantedMount each;
    each.name = own.name;
    each.source = own.source;
    each.mountpoint = fmt::format("{}/{}/{}", expand(site.job_folder, job), job.id, own.name);
    each.options = site.job_options;
    each.own = true;
    each.credentials_file = request.credentials_file;
    each.profile = request.profile;
    each.on_failure = site.on_failure;
    wanted.push_back(std::move(each));
  }
  return wanted;
}

int release_all(SlurmMounts& mounts, Audience& audience, const SlurmJob& job, const std::string& folder,
                OnFailure policy, bool with_summary) {
  int code = kExitOk;
  for (const std::string& mountpoint : mountpoints_of(folder, job.key())) {
    const auto released = mounts.release(mountpoint);
    if (!released) continue;
    if (with_summary && !released->summary.empty()) {
      std::puts(released->summary.c_str());
      audience.say_in_output(released->summary);
    }
    if (released->error) code = std::max(code, fail_job(audience, job, policy, released->error->message));
  }
  return code;
}

struct Context {
  SlurmJob job;
  SlurmSite site;
  std::string folder;
};

// What both need; or what went wrong, as an exit code that is told already.
tl::expected<Context, int> begin(const Arguments& arguments) {
  const auto refuse = [](const std::string& why) {
    log_on_node(LOG_ERR, why);
    return tl::unexpected(kExitFailed);
  };
  const auto policy = parse_on_failure(arguments.on_failure);
  if (!policy) {
    print_error("--on-failure: " + policy.error().message);
    return tl::unexpected(kExitUsage);
  }
  if (::geteuid() != 0) return refuse("slurm prolog and epilog run as root");
  auto job = slurm_job(variable);
  if (!job) return refuse(job.error().message);
  auto site = read_site(arguments.site);
  auto folder = ledger_folder();
  if (!site || !folder) {
    Audience audience(*job, SlurmSite().command_timeout);
    return tl::unexpected(fail_job(audience, *job, *policy, site ? folder.error().message : site.error().message));
  }
  return Context{std::move(*job), std::move(*site), std::move(*folder)};
}

int prolog(const Arguments& arguments) {
  const auto context = begin(arguments);
  if (!context) return context.error();
  const auto& [job, site, folder] = *context;
  Audience audience(job, site.command_timeout);
  const auto request = parse_request(job.comment);
  if (!request) return fail_job(audience, job, site.on_job_error, request.error().message);
  const auto wanted = plan(site, job, *request);
  if (!wanted) return fail_job(audience, job, site.on_job_error, wanted.error().message);
  SlurmMounts mounts(site, job, folder);
  for (const WantedMount& each : *wanted) {
    const auto there = mounts.ensure(each);
    if (there) continue;
    const Code code = there.error().code;
    const bool of_job = code == Code::kInvalid || (each.own && code != Code::kTimeout);
    const OnFailure policy = of_job ? site.on_job_error : each.on_failure;
    const int exit_code = fail_job(audience, job, policy, fmt::format("{}: {}", each.name, there.error().message));
    if (policy == OnFailure::kContinue) continue;
    // Whether Slurm runs the epilog after a failed prolog differs from version to version.
    release_all(mounts, audience, job, folder, OnFailure::kContinue, false);
    return exit_code;
  }
  return kExitOk;
}

int epilog(const Arguments& arguments) {
  const auto context = begin(arguments);
  if (!context) return context.error();
  const auto& [job, site, folder] = *context;
  Audience audience(job, site.command_timeout);
  SlurmMounts mounts(site, job, folder);
  return release_all(mounts, audience, job, folder, site.on_epilog_failure, true);
}

int credentials(const Arguments& arguments) {
  auto done = become(arguments.user);
  const auto keys = done ? user_credentials(arguments.file, arguments.profile) : tl::unexpected(done.error());
  if (!keys) {
    print_error(keys.error().message);
    return kExitFailed;
  }
  std::puts(keys->c_str());
  return kExitOk;
}

int say(const Arguments& arguments) {
  auto done = become(arguments.user);
  if (done) done = append_line(arguments.file, arguments.line);
  if (done) return kExitOk;
  print_error(done.error().message);
  return kExitFailed;
}

}  // namespace

void add_slurm_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("slurm", "For the Prolog and Epilog of Slurm");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, int (*run)(const Arguments&)) {
    CLI::App* const inner = command->add_subcommand(name, help);
    inner->callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
    return inner;
  };
  for (CLI::App* inner : {add("prolog", "Mount what the site and the job ask for", prolog),
                          add("epilog", "Let go of the job's mounts, and print what they did", epilog)}) {
    inner->add_option("--site", arguments->site, "The site's file. Default: /etc/shardfs/slurm.toml")
        ->type_name("FILE");
    inner->add_option("--on-failure", arguments->on_failure,
                      "Where that file can't be read: drain, cancel or continue. Default: drain");
  }
  CLI::App* const keys = add("credentials", "", credentials)->group("");
  CLI::App* const line = add("say", "", say)->group("");
  for (CLI::App* inner : {keys, line}) {
    inner->add_option("--uid", arguments->user.uid)->required();
    inner->add_option("--gid", arguments->user.gid)->required();
  }
  keys->add_option("--profile", arguments->profile);
  keys->add_option("--file", arguments->file);
  line->add_option("FILE", arguments->file)->required();
  line->add_option("LINE", arguments->line)->required();
  command->footer(
      "Both take the job from the variables that Slurm gives to these scripts, and may be repeated.\n"
      "docs/slurm.md has the set-up, the site's file, and what a job writes.\n"
      "\n"
      "Examples:\n"
      "  shardfs slurm prolog\n"
      "  shardfs slurm epilog --site /etc/shardfs/slurm.toml");
}

}  // namespace shardfs::app
