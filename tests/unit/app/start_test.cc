#include <doctest/doctest.h>

#include <string>

#include "app/start_failure.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::Error;

MountPlan plan() {
  MountPlan result;
  result.source = {"bucket", "a/"};
  result.mountpoint = "/data";
  result.options.cache_folder = "/cache";
  result.options.allow_other = true;
  return result;
}

bool has(const Error& error, std::string_view part) { return error.message.find(part) != std::string::npos; }

TEST_CASE("each failure says what, which value and what to do") {
  const Error missing = explain_store(plan(), "http://x", {Code::kNotFound, "404 NoSuchBucket", 0});
  CHECK(missing.code == Code::kNotFound);
  CHECK(missing.message ==
        "can't mount s3://bucket/a from http://x: 404 NoSuchBucket; check the bucket \"bucket\" and --endpoint-url");
  CHECK(has(explain_store(plan(), "http://x", {Code::kPermission, "403", 0}), "check the keys"));
  CHECK(has(explain_store(plan(), "http://x", {Code::kTransient, "refused", 0}), "check --endpoint-url"));
  CHECK(has(explain_store(plan(), "http://x", {Code::kTimeout, "late", 0}), "check --endpoint-url"));
  CHECK(explain_store(plan(), "http://x", {Code::kInvalid, "y", 0}).message ==
        "can't mount s3://bucket/a from http://x: y");
  CHECK(has(explain_settings(plan(), {Code::kPermission, "no credentials", 0}), "--no-sign-request"));
  CHECK_FALSE(has(explain_settings(plan(), {Code::kInvalid, "CA bundle", 0}), "--no-sign-request"));
  const Error cache = explain_cache(plan(), {Code::kCacheIo, "read-only", 30});
  CHECK(has(cache, "/cache: read-only"));
  CHECK(has(cache, "--cache-dir"));
  CHECK(cache.sys_errno == 30);
  CHECK(has(explain_mount(plan(), {Code::kPermission, "option allow_other only allowed if", 0}), "user_allow_other"));
  CHECK_FALSE(has(explain_mount(plan(), {Code::kIo, "no device", 0}), "user_allow_other"));
}

TEST_CASE("a numbered Slurm step ends with its mount, other cgroups do not") {
  CHECK(job_step_of("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n") == "step_0");
  CHECK(job_step_of("4:memory:/slurm/uid_0/job_7/step_3\n1:cpu:/\n") == "step_3");
  CHECK(job_step_of("0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_0\n").empty());
  CHECK(job_step_of("0::/system.slice/slurmd.service\n").empty());
  CHECK(job_step_of("").empty());
}

}  // namespace
}  // namespace shardfs::app
