// Tar shards of random samples, and a plain reader of them: what the demo does on a machine without Python.
// Not a data loader: it decodes nothing.
// Thread rule: pure functions; they block on files. The reader uses two threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "app/demo_report.h"
#include "base/error.h"

namespace shardfs::app {

/// shard-000000.tar and so on, together about size_bytes. progress: called with 0..1. Errors: kIo, kCancelled.
base::Result<void> make_shards(const std::string& folder, unsigned shards, unsigned samples, uint64_t size_bytes,
                               const std::function<void(double)>& progress, const std::atomic<bool>& stop);

/// Reads every shard once in pieces of 1 MiB, two at a time; eight pieces are a batch. samples: how many the shards
/// hold together. Errors: kIo, kCancelled.
base::Result<EpochResult> read_shards(const std::string& folder, unsigned samples, const std::atomic<bool>& stop);

}  // namespace shardfs::app
