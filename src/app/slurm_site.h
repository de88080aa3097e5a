// SlurmSite: what the administrator decided in /etc/shardfs/slurm.toml: which mounts jobs get, and what a failure
// means. Not what a job asks for: that is slurm_job.h. Thread rule: plain values and pure functions.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::app {

/// What becomes of the job and of its node.
enum class OnFailure {
  kDrain,     // the script fails: Slurm drains the node, and holds the job
  kCancel,    // the job is cancelled, the node stays
  kContinue,  // the job runs without the mount
};
/// Errors: kInvalid.
base::Result<OnFailure> parse_on_failure(const std::string& text);

/// By setting name, as on the command line of `shardfs mount`.
using SettingValues = std::map<std::string, std::string>;

/// A mount that the site defines.
struct SiteMount {
  std::string name;
  std::string source;                   // s3://...
  std::string path;                     // may hold {job}, {user}, {node}
  std::vector<std::string> partitions;  // empty: all
  bool for_all_jobs = false;            // else for those that ask for it
  bool shared = false;                  // readable by everybody; else by the job's user
  std::string environment_file;         // NAME=VALUE lines for the daemon: the site's keys. Empty: none
  std::optional<OnFailure> on_failure;
  SettingValues options;
};

struct SlurmSite {
  OnFailure on_failure = OnFailure::kDrain;          // the node or the store does not work
  OnFailure on_job_error = OnFailure::kCancel;       // what the job asks for makes no sense
  OnFailure on_epilog_failure = OnFailure::kDrain;   // kDrain or kContinue
  std::chrono::milliseconds mount_timeout{60000};    // a mount's start
  std::chrono::milliseconds umount_timeout{20000};   // a mount's end, before it is forced
  std::chrono::milliseconds command_timeout{10000};  // everything else: stats, credentials, scancel, the job's output
  std::string scope = "auto";                        // systemd-run: auto, always, never
  std::vector<SiteMount> mounts;

  // Mounts that jobs define. Their endpoint and everything else but the prefix and the keys are the site's.
  bool job_mounts = false;
  std::string job_folder = "/run/shardfs-jobs";  // a job's mount is FOLDER/JOBID/NAME
  std::vector<std::string> job_partitions;
  SettingValues job_options;
};

/// Errors: kInvalid, naming the line, the key, and what would be right.
base::Result<SlurmSite> parse_slurm_site(const std::string& text, const std::string& origin);

/// Letters, digits, dot, dash, underscore; no dot first; at most 64.
bool is_mount_name(const std::string& name);

}  // namespace shardfs::app
