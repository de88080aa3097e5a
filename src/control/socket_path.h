// Where the control sockets of this user's mounts are, and the small state file beside each.
// The folder: $SHARDFS_RUNTIME_DIR, else /run/shardfs for root, else $XDG_RUNTIME_DIR/shardfs, else /tmp/shardfs-UID.
// The name: a hash of the canonical mountpoint, so that a mount and a client find each other without a register.
// Nothing here touches a mounted file system, which may hang.
// Thread rule: thread-safe functions; they block on local files only.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::control {

/// Made if missing. Errors: kPermission if it belongs to another user or others may write to it, kIo.
base::Result<std::string> runtime_folder();

/// Absolute, without links, "." and "..", without a question to the file system that may be mounted there.
/// Errors: kNotFound, kIo.
base::Result<std::string> canonical_mountpoint(const std::string& path);

/// FOLDER/HASH.sock. Errors: kInvalid if the path is too long for a socket (107 bytes).
base::Result<std::string> socket_path(const std::string& folder, const std::string& canonical_mountpoint);

/// FOLDER/HASH.lock, of MountLock.
std::string lock_path(const std::string& folder, const std::string& canonical_mountpoint);

/// What `stats` without a mountpoint and `umount` need to know of a mount.
struct MountState {
  int process_id = 0;
  std::string process_start;  // field 22 of /proc/PID/stat: tells a reused process id
  std::string mountpoint;     // canonical
  std::string source;         // s3://bucket/prefix
  std::string socket;
};

/// The start time of a process as in MountState; empty if there is no such process.
std::string process_start(int process_id);
/// True while the very process that wrote the state lives.
bool alive(const MountState& state);

/// Replaces FOLDER/HASH.json, mode 0600, in one step. Errors: kIo.
base::Result<void> write_state(const std::string& folder, const MountState& state);
/// Errors: kNotFound, kIo, kInvalid (not one of ours).
base::Result<MountState> read_state(const std::string& folder, const std::string& canonical_mountpoint);
/// State and socket file; success if they are gone.
void remove_state(const std::string& folder, const std::string& canonical_mountpoint);
/// The living mounts, sorted by mountpoint. Files that can't be read or that belong to a dead process are left out.
std::vector<MountState> list_states(const std::string& folder);

}  // namespace shardfs::control
