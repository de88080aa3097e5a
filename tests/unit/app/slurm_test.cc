#include <doctest/doctest.h>

#include <map>

#include "../temporary_folder.h"
#include "app/slurm_job.h"
#include "app/slurm_ledger.h"
#include "app/slurm_site.h"

namespace shardfs::app {
namespace {

using std::chrono::steady_clock;

SlurmJob some_job() {
  SlurmJob job;
  job.id = "7";
  job.user = "ada";
  job.work_folder = "/home/ada";
  return job;
}

TEST_CASE("a job is read from Slurm's variables, and what they lack is named") {
  std::map<std::string, std::string> given = {{"SLURM_JOB_ID", "7"},     {"SLURM_JOB_UID", "1000"},
                                              {"SLURM_JOB_GID", "100"},  {"SLURMD_NODENAME", "n1"},
                                              {"SLURM_JOB_USER", "ada"}, {"SLURM_JOB_COMMENT", "shardfs:a b"}};
  const auto variables = [&](const std::string& name) {
    const auto found = given.find(name);
    return found == given.end() ? std::nullopt : std::optional(found->second);
  };
  const auto job = slurm_job(variables);
  REQUIRE(job);
  CHECK(job->uid == 1000);
  CHECK(job->gid == 100);
  CHECK(job->key() == "7@n1");
  CHECK(job->comment == "shardfs:a b");
  for (const auto* name : {"SLURM_JOB_ID", "SLURM_JOB_UID", "SLURMD_NODENAME"}) {
    const auto kept = given.extract(name);
    CHECK(slurm_job(variables).error().message.find(name) != std::string::npos);
    given[name] = kept.mapped();
  }
}

TEST_CASE("the output file, where Slurm's pattern says it") {
  SlurmJob job = some_job();
  const auto file = [&](const char* pattern) {
    job.output = pattern;
    return output_file(job);
  };
  CHECK(file("/scratch/%u/%j-100%%.out") == "/scratch/ada/7-100%.out");
  CHECK(file("logs/%j") == "/home/ada/logs/7");
  CHECK(file("") == "");
  for (const auto* pattern : {"%A_%a.out", "%4j", "%x", "\\%j", "%"}) CHECK(file(pattern) == "");
  CHECK(output_file("JobId=7 Command=(null) StdErr=/a/b c StdIn=/dev/null StdOut=/a/b c Power= \n") == "/a/b c");
  CHECK(output_file("JobId=7 StdOut=/a/b\n") == "/a/b");
  CHECK(output_file("JobId=7 Power=\n") == "");
}

TEST_CASE("a comment's words") {
  const auto request =
      parse_request("x=1 shardfs:train shardfs:own=s3://bucket/a/b shardfs-credentials:/k shardfs-profile:p");
  REQUIRE(request);
  CHECK(request->site_mounts == std::vector<std::string>{"train"});
  REQUIRE(request->own_mounts.size() == 1);
  CHECK(request->own_mounts[0].name == "own");
  CHECK(request->own_mounts[0].source == "s3://bucket/a/b");
  CHECK(request->credentials_file == "/k");
  CHECK(request->profile == "p");
  CHECK(parse_request("")->site_mounts.empty());
  for (const auto* comment :
       {"shardfs", "shardfs:", "shardfs:.x", "shardfs:a=b", "shardfs:a/b=s3://bucket", "shardfs-credentials:k",
        "shardfs-profile:", "shardfsx:a", "shardfs:a=s3://me:hush@bucket"}) {
    const auto refused = parse_request(comment);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::Code::kInvalid);
    CHECK(refused.error().message.find("hush") == std::string::npos);
  }
}

TEST_CASE("the example of a site file is one") {
  const auto site = parse_slurm_site(
      "on-failure = 'cancel'\nmount-timeout = '5s'\n[mounts.a]\nsource = 's3://bucket/a'\npath = '/a/{job}'\n"
      "partitions = ['p', 'q']\nfor-all-jobs = true\n[mounts.a.options]\ncache-size = '80%'\nconnections = 8\n"
      "[job-mounts]\nallow = true\n",
      "site");
  REQUIRE_MESSAGE(site.has_value(), site.error().message);
  CHECK(site->on_failure == OnFailure::kCancel);
  CHECK(site->on_job_error == OnFailure::kCancel);
  CHECK(site->mount_timeout == std::chrono::seconds(5));
  REQUIRE(site->mounts.size() == 1);
  CHECK(site->mounts[0].partitions == std::vector<std::string>{"p", "q"});
  CHECK(site->mounts[0].for_all_jobs);
  CHECK_FALSE(site->mounts[0].shared);
  CHECK(site->mounts[0].options == SettingValues{{"cache-size", "80%"}, {"connections", "8"}});
  CHECK(site->job_mounts);
}

TEST_CASE("an entry of the ledger is held by one, and goes with its last job") {
  TemporaryFolder folder;
  {
    auto entry = LedgerEntry::open(folder.path(), "/data", steady_clock::now());
    REQUIRE(entry);
    CHECK(LedgerEntry::open(folder.path(), "/data", steady_clock::now()).error().code == base::Code::kTimeout);
    CHECK(LedgerEntry::open(folder.path(), "/other", steady_clock::now()));
    entry->record.identity = "what";
    entry->record.jobs["7@n1"] = {1, 2, 3, 4.5};
    entry->record.remove = {"/x"};
    REQUIRE(entry->save());
  }
  CHECK(mountpoints_of(folder.path(), "7@n1") == std::vector<std::string>{"/data"});
  CHECK(mountpoints_of(folder.path(), "7@n2").empty());
  auto entry = LedgerEntry::open(folder.path(), "/data", steady_clock::now());
  REQUIRE(entry);
  CHECK(entry->record.identity == "what");
  CHECK(entry->record.remove == std::vector<std::string>{"/x"});
  CHECK(entry->record.jobs.at("7@n1").demand_bytes == 3);
  CHECK(entry->record.jobs.at("7@n1").stalled_s == 4.5);
  entry->record.jobs.clear();
  REQUIRE(entry->save());
  CHECK(mountpoints_of(folder.path(), "7@n1").empty());
}

}  // namespace
}  // namespace shardfs::app
