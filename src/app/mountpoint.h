// Mountpoints: what is mounted where, whether a mount may be made there, and how one is taken away.
// Thread rule: pure functions over /proc and the kernel; they may block on local file systems, never on a mount of
// shardfs whose daemon lives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::app {

struct MountEntry {
  std::string mountpoint;
  std::string type;    // "fuse.shardfs", "ext4"
  std::string source;  // as the mount names it
  std::string device;  // "0:52"
  bool of_shardfs() const;
  bool of_fuse() const;
};

/// The topmost mount on exactly this path.
std::optional<MountEntry> find_mount(const std::string& canonical_mountpoint);
/// From the text of /proc/self/mountinfo; for tests.
std::optional<MountEntry> find_mount(const std::string& mountinfo, const std::string& canonical_mountpoint);

/// The topmost mount that a path lies on, if its mountpoint is a folder above the path.
std::optional<MountEntry> find_mount_above(const std::string& mountinfo, const std::string& canonical_path);
std::optional<MountEntry> find_mount_above(const std::string& canonical_path);

/// A cache below its own mountpoint would be hidden by the mount, and read through itself. folder need not exist.
/// Errors: kInvalid.
base::Result<void> refuse_cache_below(const std::string& mountpoint, const std::string& folder);

/// Checks that a mount may be made here, and detaches the remains of a mount whose daemon is dead. Notes (a folder that
/// is not empty, remains that were detached) are appended to `notes`.
/// Errors: kNotFound, kNotDirectory, kInvalid (something is mounted), kPermission, kIo.
base::Result<void> prepare_mountpoint(const std::string& mountpoint, std::vector<std::string>& notes);

enum class Unmounted { kDone, kNotMounted, kBusy };
/// lazy: the name goes at once, the file system when its last user goes. By umount2, or fusermount3 without privilege.
/// Errors: kPermission, kIo.
base::Result<Unmounted> unmount(const std::string& canonical_mountpoint, bool lazy);

/// Every request to this mount fails from now on. device: of its MountEntry. False: not possible here (no privilege, or
/// /sys/fs/fuse/connections is not mounted).
bool abort_connection(const std::string& device);

/// A process that keeps a mount busy.
struct Holder {
  int process_id = 0;
  std::string name;
  std::string how;  // "working directory", "open file /data/x", "mapped file /data/x"
};
/// Only those that this user may see.
std::vector<Holder> holders_of(const std::string& canonical_mountpoint);

}  // namespace shardfs::app
