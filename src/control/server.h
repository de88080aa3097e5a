// Server: the mount's control socket. One request a line and one answer a line, both JSON (shardfs/control_client.h
// says how they look). Not the content: app registers a function for each command.
// Thread rule: thread-safe; handlers run on the server's own threads, at most ServerLimits::clients at once, others
// wait in the socket's queue. A slow or silent client is dropped after a time-out. Owns the socket file and removes it
// at the end; the destructor waits for handlers that run.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"

namespace shardfs::control {

/// Takes and returns JSON text (an object). May block; an exception out of it becomes an error answer.
using Handler = std::function<base::Result<std::string>(const std::string& arguments)>;

struct ServerLimits {
  size_t clients = 16;          // Source: a person, a scraper and a few jobs' hints at once; each is a thread
  size_t line_bytes = 1 << 20;  // a longer request is refused. Source: a warm list of some 10,000 names
  std::chrono::milliseconds silence{10000};  // from the connection or the last answer to the end of the next line
};

class Server {
 public:
  virtual ~Server() = default;
  /// Mode 0600. A dead socket file at the path is replaced, a live one is kInvalid. Errors: kInvalid, kIo.
  static base::Result<std::unique_ptr<Server>> listen(const std::string& path, std::map<std::string, Handler> handlers,
                                                      ServerLimits limits = {});
};

}  // namespace shardfs::control
