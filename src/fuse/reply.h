// Request: one question of the kernel, answered exactly once, by whichever thread comes first; with EIO if it is
// dropped unanswered. And the translation of fs's answers into libfuse's. Thread rule: thread-safe; replies never block
// and hold no lock.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "fs/file_system.h"
#include "fuse/connection.h"
#include "fuse/libfuse.h"

namespace shardfs::fuse {

class Request : public std::enable_shared_from_this<Request> {
 public:
  explicit Request(fuse_req_t request);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  fs::FileSystem& file_system() const { return *connection_.file_system; }
  fs::Caller caller() const { return caller_; }

  /// From now on an INTERRUPT cancels it. Call it before the request is handed to anybody else.
  void allow_interrupt();
  /// How; null does nothing. It runs at once if the INTERRUPT has come already.
  void cancel_by(fs::Cancel cancel);
  void interrupt() noexcept;

  void error(int error) noexcept;
  void entry(const fs::Reply<fs::EntryReply>& reply) noexcept;
  void attributes(const fs::Reply<fs::AttrReply>& reply) noexcept;
  void open(const fs::Reply<fs::OpenReply>& reply, fuse_file_info info) noexcept;
  void open_directory(const fs::Reply<fs::OpenDirectoryReply>& reply, fuse_file_info info) noexcept;
  /// The bytes go to the kernel from where they are.
  void pieces(const fs::Reply<fetch::Pieces>& reply) noexcept;
  void statfs(const fs::Reply<struct statvfs>& reply) noexcept;
  /// size_bytes 0: only the length is asked for.
  void attribute_value(const fs::Reply<std::string>& reply, size_t size_bytes) noexcept;
  /// False: the kernel no longer wants it (the process is gone).
  bool buffer(const char* data, size_t size_bytes) noexcept;

 private:
  /// Null for all but the first caller.
  fuse_req_t take() noexcept;

  Connection& connection_;
  const fs::Caller caller_;
  std::atomic<fuse_req_t> request_;
  uint64_t number_ = 0;  // in the table of interrupts; 0: not there
  std::mutex mutex_;     // guards all below
  fs::Cancel cancel_;
  bool interrupted_ = false;
};

fuse_entry_param to_entry(fs::NodeId node, const struct stat& attributes, std::chrono::milliseconds valid_for);
/// Seconds, at most 1e9: the kernel's own arithmetic stays exact, and nobody waits that long.
double to_timeout(std::chrono::milliseconds valid_for);

}  // namespace shardfs::fuse
