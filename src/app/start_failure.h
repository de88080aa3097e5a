// Why a mount could not be made, in words that say what to do about it; and what is worth a warning at the start.
// Thread rule: pure functions; warn_of_job_step reads a file of /proc.
#pragma once

#include <string>

#include "app/mount_plan.h"
#include "base/error.h"

namespace shardfs::app {

/// The same error with a message that names the setting and a remedy.
base::Error explain_cache(const MountPlan& plan, base::Error error);
base::Error explain_settings(const MountPlan& plan, base::Error error);
base::Error explain_store(const MountPlan& plan, const std::string& endpoint, base::Error error);
base::Error explain_mount(const MountPlan& plan, base::Error error);

/// Warns if this process is in the cgroup of a Slurm step, whose end would kill the mount.
void warn_of_job_step();
/// For tests: the step named in the text of /proc/PID/cgroup; empty if there is none.
std::string job_step_of(const std::string& cgroup);

}  // namespace shardfs::app
