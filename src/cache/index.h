// Index: the slow facts about cache files (whose they are, last use, pins), in SQLite, for choosing what to evict.
// Not the truth: what is present is said by the map files, and the index is made anew from them when it is damaged.
// Thread rule: thread-safe. note_* only remember; write, oldest and the like block on SQLite under the connection's
// lock, which nothing on a read path takes. Owns the connection.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/naming.h"
#include "store/object.h"

struct sqlite3;
struct sqlite3_stmt;

namespace shardfs::cache {

struct IndexRow {
  FileKey key;
  store::ObjectId id;
  uint64_t size_bytes = 0;
  int64_t last_use_ms = 0;  // since the epoch
  bool complete = false;
  bool pinned = false;  // by the user; out only
};

struct IndexCounts {
  uint64_t files = 0;
  uint64_t complete_files = 0;
};

struct IndexLimits {
  size_t rows_per_write = 64;  // one transaction: bounds its journal, to about four pages of 4 KiB a row
};

class Index {
 public:
  /// Damaged files are removed and made anew; see take_was_made(). What can't be opened now is tried again at each use.
  /// lock_fd, lock_at: an OFD lock byte, exclusive among all mounts while the files are opened.
  Index(std::string path, IndexLimits limits, int lock_fd, uint64_t lock_at);
  ~Index();

  /// It was new or damaged, or was found damaged later: its rows must be noted again. Resets the answer.
  bool take_was_made();
  /// All rows were noted and written since: from now on its writes are synced. Until then there is nothing to lose.
  void filled();

  /// Adds the row, or raises last use and completeness of the one that is there.
  void note(IndexRow row);
  /// Of all sizes of this object. hash: only `high` is used.
  void note_use(const FileKey& key, int64_t ms);
  /// Forgets the row unless it was used after last_use_ms.
  void note_removed(const FileKey& key, int64_t last_use_ms);

  /// Writes what was noted. On an error it stays noted (bounded). Errors: kCacheIo.
  base::Result<void> write();
  /// Up to `count` rows that are not pinned, the longest unused first, after `after` (by last use and key).
  base::Result<std::vector<IndexRow>> oldest(const std::optional<IndexRow>& after, size_t count);
  base::Result<std::optional<IndexRow>> row(const FileKey& key);
  /// Up to `count` rows in the order of their keys, after this one.
  base::Result<std::vector<IndexRow>> rows_after(const FileKey& after, size_t count);

  // Pins by the user are written at once. They are lost with a damaged index.
  /// bytes: what the whole file costs.
  base::Result<void> pin(const FileKey& key, uint64_t bytes);
  base::Result<void> unpin(const FileKey& key);
  base::Result<bool> pinned(const FileKey& key);
  /// What all pinned files cost when they are complete.
  base::Result<uint64_t> pinned_bytes();
  base::Result<std::vector<FileKey>> complete_keys();
  IndexCounts counts();

 private:
  struct Change {
    std::optional<IndexRow> row;  // none: remove
    int64_t last_use_ms = 0;
  };
  using Changes = std::map<FileKey, Change>;
  using Uses = std::map<FileKey, int64_t>;
  class Statement;

  // All below: with connection_mutex_ held.
  base::Result<void> connect();
  base::Result<void> try_connect();
  void disconnect();
  base::Result<void> run(const char* sql);
  base::Result<void> write_some(Changes& changes, Uses& uses);
  base::Result<void> write_change(const FileKey& key, const Change& change);
  base::Result<std::vector<IndexRow>> rows_of(Statement& ask);
  /// Makes an Error of SQLite's; a damaged file is dropped, and made anew by the next call.
  base::Error failure(const char* what);

  const std::string path_;
  const IndexLimits limits_;
  const int lock_fd_;
  const uint64_t lock_at_;

  std::mutex connection_mutex_;  // guards the connection; held across SQLite's I/O
  sqlite3* connection_ = nullptr;
  uint64_t inode_ = 0;
  bool damaged_ = false;
  bool was_made_ = false;

  std::mutex noted_mutex_;  // guards the two below
  Changes changes_;
  Uses uses_;
};

}  // namespace shardfs::cache
