// DemoRun: the demo's steps: data, a test store with a network's latencies, a mount, two epochs through it, two of a
// local copy. Everything lies in one temporary folder, and all is taken down at the end, also after Ctrl-C.
// Thread rule: confined to the main thread. Owns the folder, the server and the mount.
#pragma once

#include <cstdint>
#include <string>

#include "app/demo_report.h"
#include "base/error.h"

namespace shardfs::app {

struct DemoOptions {
  uint64_t size_bytes = 512 << 20;
  unsigned shards = 8;
  unsigned samples = 0;  // 0: one for each 107 KB
  bool keep = false;     // leave the temporary folder
  std::string passthrough = "auto";
};

/// Shows its steps on standard error. Errors: kCancelled after a signal, kIo, and what a step says.
base::Result<DemoResult> run_demo(const DemoOptions& options);

}  // namespace shardfs::app
