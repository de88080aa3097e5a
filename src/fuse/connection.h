// Connection: what the op table needs beside the file system. libfuse hands it to every operation as user data.
// Thread rule: its members are thread-safe; `negotiated` is written in INIT only.
#pragma once

#include "fuse/interrupts.h"
#include "fuse/notifier.h"
#include "fuse/passthrough.h"
#include "fuse/session.h"

namespace shardfs::fuse {

struct Connection {
  Connection(const SessionOptions& wanted, base::Metrics& metrics)
      : options(wanted), passthrough(wanted.passthrough != PassthroughMode::kOff), notifier(metrics) {}

  const SessionOptions options;
  fs::FileSystem* file_system = nullptr;  // set before the first request
  Passthrough passthrough;
  Notifier notifier;
  Interrupts interrupts;
};

}  // namespace shardfs::fuse
