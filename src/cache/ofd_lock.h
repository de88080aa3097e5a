// Locks on byte ranges of open files (F_OFD_SETLK): the kernel frees them when the last descriptor of the description
// closes, so a dead process leaves none. Not for threads: two threads that use one description don't exclude each
// other. Thread rule: plain system calls. The owner of a lock is the open file description, not the process.
#pragma once

#include "base/byte_range.h"

namespace shardfs::cache {

enum class LockKind { kShared, kExclusive };

/// Never blocks. False if another description holds a conflicting lock, or the file system has no locks.
/// A lock that this description holds is converted. Requires: kShared: open for reading; kExclusive: for writing.
bool try_lock(int fd, LockKind kind, base::ByteRange range);

/// Waits for the holder. False only if the file system refuses.
bool wait_lock(int fd, LockKind kind, base::ByteRange range);

void unlock(int fd, base::ByteRange range);

/// The first part of the range that another description has locked (either kind); empty if none.
base::ByteRange first_locked(int fd, base::ByteRange range);

/// True if the kernel says that some other open file or mapping of this inode exists, in any process. A mapping that
/// outlived its descriptor counts too. False also where the file system can't say. Requires: fd open for writing.
/// Source: F_SETLEASE with F_WRLCK fails with EAGAIN in that case; tried on ext4 and tmpfs, Linux 6.18.
bool open_elsewhere(int fd);

}  // namespace shardfs::cache
