// Stats: one snapshot of a mount, in the design's words, as JSON and as text for people.
// Not where the numbers are made: each room counts its own into the registry.
// Thread rule: pure functions over thread-safe inputs.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"
#include "fetch/file_state.h"

namespace shardfs::control {

/// What a snapshot needs beside the registry.
struct MountFacts {
  std::string source;  // s3://bucket/prefix
  std::string mountpoint;
  std::string version;
  double uptime_s = 0;
  bool passthrough = false;
  std::string passthrough_reason;  // why not
  int process_id = 0;
  std::vector<fetch::FileState> files;  // some that are in use
};

/// One JSON object; field names and units are documented in docs/metrics.md.
std::string stats_json(const MountFacts& facts, const base::Metrics& metrics);
/// For people, from the JSON of stats_json. Errors: kInvalid if it is not that.
base::Result<std::string> stats_text(const std::string& json);

}  // namespace shardfs::control
