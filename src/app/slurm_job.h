// SlurmJob: the job that a prolog or epilog is called for, and what its comment asks for.
// Words of the comment that do not begin with "shardfs" belong to others and are passed over. No word holds a secret.
// Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::app {

struct SlurmJob {
  std::string id;
  std::string node;  // its name in Slurm
  std::string partition;
  std::string user;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string comment;
  std::string work_folder;
  std::string output;  // as given to sbatch, with % unexpanded; empty: not given

  /// Of its part on this node; one host may run several nodes.
  std::string key() const { return id + "@" + node; }
};

using Variables = std::function<std::optional<std::string>(const std::string& name)>;

/// From the variables that Slurm gives to Prolog and Epilog. Errors: kInvalid, naming the variable that is missing.
base::Result<SlurmJob> slurm_job(const Variables& variables);

/// The file that the job's standard output goes to; empty if it takes `scontrol show job` to tell.
std::string output_file(const SlurmJob& job);
/// From what `scontrol show job -o` says; empty if the job has none of its own.
std::string output_file(const std::string& shown);

/// What a job asks for.
struct SlurmRequest {
  struct Own {
    std::string name;
    std::string source;
  };
  std::vector<std::string> site_mounts;  // shardfs:NAME
  std::vector<Own> own_mounts;           // shardfs:NAME=s3://BUCKET/PREFIX
  std::string credentials_file;          // shardfs-credentials:PATH; empty: ~/.aws/credentials of the job's user
  std::string profile = "default";       // shardfs-profile:NAME
};

/// Errors: kInvalid. A message never repeats what may be a secret.
base::Result<SlurmRequest> parse_request(const std::string& comment);

}  // namespace shardfs::app
