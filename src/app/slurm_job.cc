#include "app/slurm_job.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "app/slurm_site.h"
#include "app/url.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;

Result<uint32_t> number(const std::string& name, const std::string& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalid, fmt::format("{} is not a number; is this called by Slurm?", name));
  return value;
}

// Keys of AWS begin so. Source: the IAM user guide, unique identifiers.
bool looks_like_a_key(const std::string& word) {
  return word.find("AKIA") != std::string::npos || word.find("ASIA") != std::string::npos ||
         (word.find("://") != std::string::npos && word.find('@') != std::string::npos);
}

}  // namespace

Result<SlurmJob> slurm_job(const Variables& variables) {
  const auto text = [&](const char* name) { return variables(name).value_or(""); };
  SlurmJob job;
  job.id = text("SLURM_JOB_ID");
  if (auto id = number("SLURM_JOB_ID", job.id); !id) return tl::unexpected(std::move(id.error()));
  auto uid = number("SLURM_JOB_UID", text("SLURM_JOB_UID"));
  if (!uid) return tl::unexpected(std::move(uid.error()));
  job.uid = *uid;
  auto gid = number("SLURM_JOB_GID", variables("SLURM_JOB_GID").value_or(text("SLURM_JOB_UID")));
  if (!gid) return tl::unexpected(std::move(gid.error()));
  job.gid = *gid;
  job.node = text("SLURMD_NODENAME");
  job.partition = text("SLURM_JOB_PARTITION");
  job.user = text("SLURM_JOB_USER");
  job.comment = text("SLURM_JOB_COMMENT");
  job.work_folder = text("SLURM_JOB_WORK_DIR");
  job.output = text("SLURM_JOB_STDOUT");
  if (!is_mount_name(job.node)) return fail(Code::kInvalid, "SLURMD_NODENAME is no name; is this called by Slurm?");
  return job;
}

// Source: sbatch(1), "filename pattern"; Slurm 22.05 gives the pattern to Prolog and Epilog, and not what most letters
// stand for.
std::string output_file(const SlurmJob& job) {
  std::string path;
  for (size_t i = 0; i < job.output.size(); ++i) {
    const char c = job.output[i];
    if (c == '\\') return {};
    if (c != '%') {
      path += c;
      continue;
    }
    const char letter = i + 1 < job.output.size() ? job.output[++i] : '\0';
    if (letter == 'j') {
      path += job.id;
    } else if (letter == 'u') {
      path += job.user;
    } else if (letter == '%') {
      path += '%';
    } else {
      return {};
    }
  }
  if (path.empty() || path.starts_with('/')) return path;
  return job.work_folder.starts_with('/') ? job.work_folder + "/" + path : std::string();
}

std::string output_file(const std::string& shown) {
  constexpr std::string_view kField = " StdOut=";
  const size_t at = shown.find(kField);
  if (at == std::string::npos) return {};
  const size_t begin = at + kField.size();
  // The next field; a name may hold blanks.
  const size_t end = std::min(shown.find(" Power=", begin), shown.find_last_not_of(" \n") + 1);
  const std::string path = shown.substr(begin, end - begin);
  return path.starts_with('/') && path.find('%') == std::string::npos ? path : std::string();
}

Result<SlurmRequest> parse_request(const std::string& comment) {
  SlurmRequest request;
  std::istringstream words(comment);
  for (std::string word; words >> word;) {
    if (!word.starts_with("shardfs")) continue;
    if (looks_like_a_key(word)) {
      return fail(
          Code::kInvalid,
          "the job's comment seems to hold a key, which everybody can read there: put it into a file, withdraw it, "
          "and name the file by shardfs-credentials:PATH");
    }
    const size_t colon = word.find(':');
    const std::string kind = word.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
    const size_t equals = value.find('=');
    if (kind == "shardfs" && equals != std::string::npos) {
      SlurmRequest::Own own{value.substr(0, equals), value.substr(equals + 1)};
      if (auto url = parse_url(own.source); !url) return tl::unexpected(std::move(url.error()));
      if (!is_mount_name(own.name)) return fail(Code::kInvalid, fmt::format("\"{}\" is no name for a mount", own.name));
      request.own_mounts.push_back(std::move(own));
    } else if (kind == "shardfs" && is_mount_name(value)) {
      request.site_mounts.push_back(value);
    } else if (kind == "shardfs-credentials" && value.starts_with('/')) {
      request.credentials_file = value;
    } else if (kind == "shardfs-profile" && is_mount_name(value)) {
      request.profile = value;
    } else {
      return fail(
          Code::kInvalid,
          fmt::format("the word \"{}\" of the job's comment: known are shardfs:NAME, shardfs:NAME=s3://BUCKET/PREFIX, "
                      "shardfs-credentials:/PATH, shardfs-profile:NAME",
                      kind + ":…"));
    }
  }
  return request;
}

}  // namespace shardfs::app
