// SlurmMounts: makes sure that a job's mount is there, and lets go of it when the job ends.
// Not which mounts a job gets, nor what a failure means: slurm_command.cc decides that.
// Thread rule: confined to one thread; blocks, each step within its limit. Owns nothing that outlives a call: the
// daemons live on by themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/slurm_job.h"
#include "app/slurm_ledger.h"
#include "app/slurm_site.h"
#include "base/error.h"

namespace shardfs::app {

struct WantedMount {
  std::string name;
  std::string source;
  std::string mountpoint;
  bool shared = false;
  SettingValues options;
  std::string environment_file;
  bool own = false;              // with the job's keys
  std::string credentials_file;  // of the job, if own
  std::string profile;
  OnFailure on_failure = OnFailure::kDrain;
};

class SlurmMounts {
 public:
  SlurmMounts(const SlurmSite& site, const SlurmJob& job, std::string folder)
      : site_(site), job_(job), folder_(std::move(folder)) {}

  /// Success if it is mounted already. Errors: those of `shardfs mount` in its words, kTimeout; kPermission if the
  /// job's keys can't be had, kInvalid if another job's mount is there: these two are the job's own.
  base::Result<void> ensure(const WantedMount& wanted);

  struct Released {
    std::string summary;               // a line for the job's output; empty if the mount did not answer
    std::optional<base::Error> error;  // it is not unmounted
  };
  /// Unmounts what no other job uses. Nothing if this job does not use it.
  std::optional<Released> release(const std::string& mountpoint);

 private:
  base::Result<void> mount(const WantedMount& wanted, LedgerRecord& record);
  /// Checks that the job has keys, and writes a profile by which the daemon gets them.
  base::Result<void> write_profile(const WantedMount& wanted, const std::string& path);
  base::Result<void> force_away(const std::string& mountpoint);

  const SlurmSite& site_;
  const SlurmJob& job_;
  const std::string folder_;
};

/// The folders up to and with the mountpoint, made if missing. Every one of them must be root's alone, since a user who
/// can rename one could have anything mounted over. Errors: kPermission, kNotDirectory, kIo.
base::Result<void> make_mountpoint(const std::string& path);

}  // namespace shardfs::app
