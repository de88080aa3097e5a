#include "cache/index.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "cache/ofd_lock.h"

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

constexpr int kSchemaVersion = 1;
constexpr int kBusyWaitMs = 2000;      // another mount's transaction of 64 rows takes a few
constexpr size_t kNotedLimit = 65536;  // rows and uses; beyond it last uses are lost, which costs only a worse choice

constexpr const char* kSchema =
    "CREATE TABLE files(space TEXT NOT NULL, hash BLOB NOT NULL, endpoint BLOB NOT NULL, bucket BLOB NOT NULL,"
    " object BLOB NOT NULL, version BLOB NOT NULL, size INTEGER NOT NULL, last_use INTEGER NOT NULL,"
    " complete INTEGER NOT NULL, PRIMARY KEY(space, hash)) WITHOUT ROWID;"
    "CREATE INDEX by_last_use ON files(last_use, space, hash);"
    "PRAGMA user_version=1;";

// Beside version 1, which does not need it.
constexpr const char* kPins =
    "CREATE TABLE IF NOT EXISTS pins(space TEXT NOT NULL, hash BLOB NOT NULL, bytes INTEGER NOT NULL,"
    " PRIMARY KEY(space, hash)) WITHOUT ROWID;";

constexpr const char* kColumns = "space, hash, endpoint, bucket, object, version, size, last_use, complete";

// Of one row, for rows_of.
constexpr const char* kAsk =
    "SELECT space, hash, endpoint, bucket, object, version, size, last_use, complete,"
    " EXISTS(SELECT 1 FROM pins WHERE pins.space=files.space AND pins.hash=files.hash) AS pinned FROM files ";

// Big-endian, so that the order of blobs is the order of hashes.
std::string blob_of(const ObjectHash& hash) {
  std::string blob(16, '\0');
  for (size_t i = 0; i < 8; ++i) {
    blob[i] = static_cast<char>(hash.high >> (56 - 8 * i));
    blob[8 + i] = static_cast<char>(hash.low >> (56 - 8 * i));
  }
  return blob;
}

ObjectHash hash_of_blob(const std::string& blob) {
  ObjectHash hash;
  for (size_t i = 0; i < 8 && blob.size() == 16; ++i) {
    hash.high = hash.high << 8 | static_cast<uint8_t>(blob[i]);
    hash.low = hash.low << 8 | static_cast<uint8_t>(blob[8 + i]);
  }
  return hash;
}

// SQLITE_ERROR: a table is gone, as in a file that was cut to nothing; the statements themselves are right.
bool is_damage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB || code == SQLITE_ERROR;
}

uint64_t inode_of(const std::string& path) {
  struct ::stat answer;
  return ::stat(path.c_str(), &answer) == 0 ? answer.st_ino : 0;
}

}  // namespace

// One prepared statement, and the values that go in and out of it.
class Index::Statement {
 public:
  Statement(sqlite3* connection, const std::string& sql) {
    ::sqlite3_prepare_v2(connection, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& text(const std::string& value) {
    ::sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& blob(const std::string& value) {
    ::sqlite3_bind_blob(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& number(int64_t value) {
    ::sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& key(const FileKey& key) { return text(key.name_space).blob(blob_of(key.hash)); }
  /// SQLITE_ROW, SQLITE_DONE or an error.
  int step() { return statement_ == nullptr ? SQLITE_ERROR : ::sqlite3_step(statement_); }
  std::string bytes_at(int column) {
    const auto* data = static_cast<const char*>(::sqlite3_column_blob(statement_, column));
    const int size = ::sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(data, static_cast<size_t>(size));
  }
  int64_t number_at(int column) { return ::sqlite3_column_int64(statement_, column); }
  FileKey key_at(int column) { return {bytes_at(column), hash_of_blob(bytes_at(column + 1))}; }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

Index::Index(std::string path, IndexLimits limits, int lock_fd, uint64_t lock_at)
    : path_(std::move(path)), limits_(limits), lock_fd_(lock_fd), lock_at_(lock_at) {
  const std::lock_guard guard(connection_mutex_);
  if (const auto connected = connect(); !connected) {
    base::warn_once("cache:index", "{}: tried again later", connected.error().message);
  }
}

Index::~Index() {
  const std::lock_guard guard(connection_mutex_);
  disconnect();
}

void Index::disconnect() {
  if (connection_ != nullptr) ::sqlite3_close(connection_);
  connection_ = nullptr;
}

Result<void> Index::connect() {
  // Another mount may have found it damaged and made a new one.
  if (connection_ != nullptr && !damaged_ && inode_of(path_) == inode_) return {};
  disconnect();
  const base::ByteRange lock = {lock_at_, lock_at_ + 1};
  wait_lock(lock_fd_, LockKind::kExclusive, lock);
  auto connected = damaged_ ? Result<void>(base::fail(Code::kCacheIo, "damaged")) : try_connect();
  if (!connected && damaged_) {
    if (inode_ == 0 || inode_of(path_) == inode_) {
      base::log_warning("the cache's index {} was damaged: it is made anew from the cache files, without pins", path_);
      for (const char* suffix : {"", "-journal", "-wal", "-shm"}) ::unlink((path_ + suffix).c_str());
    }
    damaged_ = false;
    connected = try_connect();
    was_made_ = true;
  }
  unlock(lock_fd_, lock);
  return connected;
}

Result<void> Index::try_connect() {
  const bool there = ::access(path_.c_str(), F_OK) == 0;
  if (::sqlite3_open_v2(path_.c_str(), &connection_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        nullptr) != SQLITE_OK) {
    auto error = failure("open");
    disconnect();
    return tl::unexpected(std::move(error));
  }
  ::sqlite3_busy_timeout(connection_, kBusyWaitMs);
  inode_ = inode_of(path_);
  // No write-ahead log: its shared memory is mapped, and whoever cuts that file would end the daemon with a SIGBUS.
  // It stays as it was where another process still has one open.
  static_cast<void>(::sqlite3_exec(connection_, "PRAGMA journal_mode=TRUNCATE", nullptr, nullptr, nullptr));
  if (auto set = run("PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=NORMAL;"
                     "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;");
      !set) {
    disconnect();
    return set;
  }
  int64_t version = -1;
  {
    Statement ask(connection_, "PRAGMA user_version");
    if (ask.step() == SQLITE_ROW) version = ask.number_at(0);
  }
  if (version == kSchemaVersion) {
    Statement probe(connection_, std::string("SELECT ") + kColumns + " FROM files LIMIT 1");
    const int code = probe.step();
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
      auto pins = run(kPins);
      if (!pins) disconnect();
      return pins;
    }
  }
  if (version == 0) {
    if (auto made = run((std::string("BEGIN IMMEDIATE;") + kSchema + kPins + "COMMIT;").c_str()); made) {
      was_made_ = true;
      inode_ = inode_of(path_);
      return run("PRAGMA synchronous=OFF");
    }
  }
  auto error = failure(there ? "look into" : "make");
  damaged_ = damaged_ || version >= 0;  // readable, and not what we know: made anew
  disconnect();
  return tl::unexpected(std::move(error));
}

base::Error Index::failure(const char* what) {
  const int code = connection_ == nullptr ? SQLITE_CANTOPEN : ::sqlite3_extended_errcode(connection_);
  if (is_damage(code)) damaged_ = true;
  return {Code::kCacheIo, "cache index " + path_ + ": " + what + ": " +
                              (connection_ == nullptr ? "out of memory" : ::sqlite3_errmsg(connection_))};
}

Result<void> Index::run(const char* sql) {
  if (::sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return tl::unexpected(failure("write"));
}

bool Index::take_was_made() {
  const std::lock_guard guard(connection_mutex_);
  return std::exchange(was_made_, false);
}

void Index::filled() {
  const std::lock_guard guard(connection_mutex_);
  if (connection_ != nullptr) static_cast<void>(run("PRAGMA synchronous=NORMAL"));
}

void Index::note(IndexRow row) {
  const std::lock_guard guard(noted_mutex_);
  if (changes_.size() >= kNotedLimit) return;
  auto& change = changes_[row.key];
  if (change.row) {
    row.complete |= change.row->complete;
    row.last_use_ms = std::max(row.last_use_ms, change.row->last_use_ms);
  }
  change.row = std::move(row);
}

void Index::note_use(const FileKey& key, int64_t ms) {
  const std::lock_guard guard(noted_mutex_);
  if (uses_.size() >= kNotedLimit) return;
  auto& noted = uses_[{key.name_space, {key.hash.high, 0}}];
  noted = std::max(noted, ms);
}

void Index::note_removed(const FileKey& key, int64_t last_use_ms) {
  const std::lock_guard guard(noted_mutex_);
  changes_[key] = {.row = std::nullopt, .last_use_ms = last_use_ms};
}

Result<void> Index::write_change(const FileKey& key, const Change& change) {
  int code = SQLITE_DONE;
  if (change.row) {
    const auto& row = *change.row;
    Statement put(connection_, std::string("INSERT INTO files(") + kColumns +
                                   ") VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(space, hash) DO UPDATE SET"
                                   " last_use=max(last_use, excluded.last_use), complete=excluded.complete");
    put.key(key).blob(row.id.endpoint).blob(row.id.bucket).blob(row.id.key).blob(row.id.version);
    put.number(static_cast<int64_t>(row.size_bytes)).number(row.last_use_ms).number(row.complete ? 1 : 0);
    code = put.step();
  } else {
    Statement drop(connection_, "DELETE FROM files WHERE space=? AND hash=? AND last_use<=?");
    code = drop.key(key).number(change.last_use_ms).step();
    if (code == SQLITE_DONE && ::sqlite3_changes(connection_) > 0) {
      Statement unpin(connection_, "DELETE FROM pins WHERE space=? AND hash=?");
      code = unpin.key(key).step();
    }
  }
  if (code == SQLITE_DONE) return {};
  return tl::unexpected(failure("write"));
}

Result<void> Index::write_some(Changes& changes, Uses& uses) {
  if (auto begun = run("BEGIN IMMEDIATE"); !begun) return begun;
  Result<void> done = {};
  size_t rows = 0;
  auto change = changes.begin();
  for (; done && change != changes.end() && rows < limits_.rows_per_write; ++change, ++rows) {
    done = write_change(change->first, change->second);
  }
  auto use = uses.begin();
  for (; done && use != uses.end() && rows < limits_.rows_per_write; ++use, ++rows) {
    FileKey last = use->first;
    last.hash.low = UINT64_MAX;
    Statement raise(connection_, "UPDATE files SET last_use=max(last_use, ?) WHERE space=? AND hash>=? AND hash<=?");
    raise.number(use->second).key(use->first).blob(blob_of(last.hash));
    if (raise.step() != SQLITE_DONE) done = tl::unexpected(failure("write"));
  }
  if (done) done = run("COMMIT");
  if (!done) {
    ::sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
    return done;
  }
  changes.erase(changes.begin(), change);
  uses.erase(uses.begin(), use);
  return {};
}

Result<void> Index::write() {
  const std::lock_guard guard(connection_mutex_);
  Changes changes;
  Uses uses;
  {
    const std::lock_guard noted(noted_mutex_);
    changes.swap(changes_);
    uses.swap(uses_);
  }
  Result<void> done = connect();
  bool removed = false;
  for (const auto& [key, change] : changes) removed |= !change.row;
  while (done && !(changes.empty() && uses.empty())) done = write_some(changes, uses);
  // Gives a few free pages back to the file system; a shrunken cache has a small index again.
  if (done && removed) done = run("PRAGMA incremental_vacuum(32)");
  if (!done) {
    const std::lock_guard noted(noted_mutex_);
    changes_.merge(changes);  // what was noted meanwhile is newer and stays
    uses_.merge(uses);
  }
  return done;
}

Result<std::vector<IndexRow>> Index::oldest(const std::optional<IndexRow>& after, size_t count) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, std::string(kAsk) +
                                 "WHERE (last_use, space, hash) > (?,?,?) AND NOT pinned"
                                 " ORDER BY last_use, space, hash LIMIT ?");
  ask.number(after ? after->last_use_ms : INT64_MIN).key(after ? after->key : FileKey{});
  ask.number(static_cast<int64_t>(count));
  return rows_of(ask);
}

Result<std::optional<IndexRow>> Index::row(const FileKey& key) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, std::string(kAsk) + "WHERE space=? AND hash=?");
  ask.key(key);
  auto rows = rows_of(ask);
  if (!rows) return tl::unexpected(rows.error());
  return rows->empty() ? std::nullopt : std::optional(std::move(rows->front()));
}

Result<std::vector<IndexRow>> Index::rows_after(const FileKey& after, size_t count) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, std::string(kAsk) + "WHERE (space, hash) > (?,?) ORDER BY space, hash LIMIT ?");
  ask.key(after).number(static_cast<int64_t>(count));
  return rows_of(ask);
}

Result<std::vector<IndexRow>> Index::rows_of(Statement& ask) {
  std::vector<IndexRow> rows;
  int code = 0;
  while ((code = ask.step()) == SQLITE_ROW) {
    rows.push_back({.key = ask.key_at(0),
                    .id = {ask.bytes_at(2), ask.bytes_at(3), ask.bytes_at(4), ask.bytes_at(5)},
                    .size_bytes = static_cast<uint64_t>(ask.number_at(6)),
                    .last_use_ms = ask.number_at(7),
                    .complete = ask.number_at(8) != 0,
                    .pinned = ask.number_at(9) != 0});
  }
  if (code != SQLITE_DONE) return tl::unexpected(failure("read"));
  return rows;
}

Result<void> Index::pin(const FileKey& key, uint64_t bytes) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return connected;
  Statement put(connection_, "INSERT OR REPLACE INTO pins(space, hash, bytes) VALUES(?,?,?)");
  if (put.key(key).number(static_cast<int64_t>(bytes)).step() == SQLITE_DONE) return {};
  return tl::unexpected(failure("pin"));
}

Result<void> Index::unpin(const FileKey& key) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return connected;
  Statement drop(connection_, "DELETE FROM pins WHERE space=? AND hash=?");
  if (drop.key(key).step() == SQLITE_DONE) return {};
  return tl::unexpected(failure("unpin"));
}

Result<bool> Index::pinned(const FileKey& key) {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, "SELECT 1 FROM pins WHERE space=? AND hash=?");
  const int code = ask.key(key).step();
  if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
  return tl::unexpected(failure("read"));
}

Result<uint64_t> Index::pinned_bytes() {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, "SELECT ifnull(sum(bytes), 0) FROM pins");
  if (ask.step() == SQLITE_ROW) return static_cast<uint64_t>(ask.number_at(0));
  return tl::unexpected(failure("read"));
}

Result<std::vector<FileKey>> Index::complete_keys() {
  const std::lock_guard guard(connection_mutex_);
  if (auto connected = connect(); !connected) return tl::unexpected(connected.error());
  Statement ask(connection_, "SELECT space, hash FROM files WHERE complete=1 ORDER BY space, hash");
  std::vector<FileKey> keys;
  int code = 0;
  while ((code = ask.step()) == SQLITE_ROW) keys.push_back(ask.key_at(0));
  if (code != SQLITE_DONE) return tl::unexpected(failure("read"));
  return keys;
}

IndexCounts Index::counts() {
  const std::lock_guard guard(connection_mutex_);
  IndexCounts counts;
  if (!connect()) return counts;
  Statement ask(connection_, "SELECT count(*), ifnull(sum(complete), 0) FROM files");
  if (ask.step() == SQLITE_ROW) {
    counts.files = static_cast<uint64_t>(ask.number_at(0));
    counts.complete_files = static_cast<uint64_t>(ask.number_at(1));
  }
  return counts;
}

}  // namespace shardfs::cache
