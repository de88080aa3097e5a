// DebugBundle: what somebody needs who looks for a fault of a mount and has not the machine: one archive.
// Without secrets: it takes no keys and no data, names variables without their values, and blots out what looks like a
// key. Thread rule: confined to one thread. Owns a folder while it is being filled.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "control/socket_path.h"

namespace shardfs::app {

/// The text with what looks like a key, a token or a password replaced by "[removed]".
std::string without_secrets(const std::string& text);

/// Writes FILE, a .tar.gz with mode 0600: the machine, and for each mount its settings, state, statistics and log.
/// What can't be read is named in it. Blocks for some seconds. Errors: kIo.
base::Result<void> write_debug_bundle(const std::string& file, const std::vector<control::MountState>& mounts);

}  // namespace shardfs::app
