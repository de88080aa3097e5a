// SlurmLedger: which jobs use which mount of this host, in one small file a mountpoint below the runtime folder.
// Not the mounts' own state (control/socket_path.h), and no truth about what is mounted: it says who still needs it.
// Thread rule: confined to one thread; several processes at once are kept apart by each entry's lock.
// Owns the lock of an entry while it is open. All goes with /run at the next start of the machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace shardfs::app {

/// What a mount had done when a job began.
struct MountCounts {
  uint64_t read_bytes = 0;     // answered by the daemon, and the sizes of passthrough opens
  uint64_t fetched_bytes = 0;  // from the store
  uint64_t demand_bytes = 0;   // of these, waited for
  double stalled_s = 0;
};

struct LedgerRecord {
  std::string mountpoint;
  std::string identity;  // source, readers and options: two jobs share a mount only if it is the same
  std::string owner;     // for messages: "job 7 of ada"
  std::map<std::string, MountCounts> jobs;  // by SlurmJob::key()
  std::vector<std::string> remove;          // files and empty folders that go with the mount, in this order
};

class LedgerEntry {
 public:
  /// Locks the entry of a mountpoint, that need not exist yet. Waits until the deadline. Errors: kTimeout, kIo.
  static base::Result<LedgerEntry> open(const std::string& folder, const std::string& mountpoint,
                                        std::chrono::steady_clock::time_point deadline);
  LedgerRecord record;
  /// Writes the record; one without jobs is removed. Errors: kIo.
  base::Result<void> save();

 private:
  LedgerEntry(std::string path, base::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  base::UniqueFd lock_;
};

/// RUNTIME/slurm, mode 0700. Errors: kIo, kPermission.
base::Result<std::string> ledger_folder();
/// The mountpoints that a job uses on this host.
std::vector<std::string> mountpoints_of(const std::string& folder, const std::string& job_key);

}  // namespace shardfs::app
