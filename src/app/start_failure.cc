#include "app/start_failure.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/log.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::Error;

Error with(Error error, std::string message) {
  error.message = std::move(message);
  return error;
}

}  // namespace

Error explain_cache(const MountPlan& plan, Error error) {
  return with(error,
              fmt::format("the cache in {}: {}; choose another --cache-dir or --cache-size, or --cache-size 0 for none",
                          plan.options.cache_folder, error.message));
}

Error explain_settings(const MountPlan& plan, Error error) {
  const std::string what = fmt::format("can't mount {}: {}", plan.source.text(), error.message);
  if (error.code != Code::kPermission) return with(error, what);
  return with(error, what + "; give keys (docs/credentials.md), or use --no-sign-request for a public bucket");
}

Error explain_store(const MountPlan& plan, const std::string& endpoint, Error error) {
  const std::string what = fmt::format("can't mount {} from {}: {}", plan.source.text(), endpoint, error.message);
  switch (error.code) {
    case Code::kNotFound:
      return with(error, fmt::format("{}; check the bucket \"{}\" and --endpoint-url", what, plan.source.bucket));
    case Code::kNotDirectory: {
      const std::string key = plan.source.prefix.substr(0, plan.source.prefix.size() - 1);
      const size_t slash = key.rfind('/');
      return with(error,
                  fmt::format("{} is an object, not a prefix: mount s3://{}{} and read {} in it", plan.source.text(),
                              plan.source.bucket, slash == std::string::npos ? "" : "/" + key.substr(0, slash),
                              slash == std::string::npos ? key : key.substr(slash + 1)));
    }
    case Code::kPermission:
      return with(
          error,
          what + "; check the keys (AWS_ACCESS_KEY_ID, --profile), or use --no-sign-request for a public bucket");
    case Code::kTransient:
    case Code::kTimeout: return with(error, what + "; check --endpoint-url and the network");
    default: return with(error, what);
  }
}

Error explain_mount(const MountPlan& plan, Error error) {
  if (plan.options.allow_other && error.message.find("allow_other") != std::string::npos) {
    return with(error, error.message + "; put user_allow_other into /etc/fuse.conf, or use --allow-other=false");
  }
  return error;
}

std::string job_step_of(const std::string& cgroup) {
  std::istringstream lines(cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t job = line.find("/job_");
    const size_t step = line.find("/step_", job == std::string::npos ? line.size() : job);
    if (step == std::string::npos) continue;
    const std::string name = line.substr(step + 1, line.find('/', step + 1) - step - 1);
    // Only numbered steps end before their job.
    if (name.size() > 5 && std::isdigit(static_cast<unsigned char>(name[5])) != 0) return name;
  }
  return {};
}

void warn_of_job_step() {
  std::ifstream file("/proc/self/cgroup", std::ios::binary);
  const std::string step = job_step_of({std::istreambuf_iterator<char>(file), {}});
  if (step.empty()) return;
  base::log_warning("this mount ends with the Slurm {} that it was made in; mount in the prolog to keep it for the job",
                    step);
}

}  // namespace shardfs::app
