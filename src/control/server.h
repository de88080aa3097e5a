// Server: the mount's control socket. One request a line and one answer a line, both JSON.
// Not the content: app registers a function for each command.
// Thread rule: thread-safe; handlers run on the server's own threads, at most `kConnections` clients at once, a slow or
// silent client is dropped after a time-out. Owns the socket file and removes it at the end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"

namespace shardfs::control {

/// Takes and returns JSON text (an object).
using Handler = std::function<base::Result<std::string>(const std::string& arguments)>;

class Server {
 public:
  virtual ~Server() = default;
  /// Mode 0600. A dead socket file at the path is replaced, a live one is kInvalid.
  static base::Result<std::unique_ptr<Server>> listen(const std::string& path, std::map<std::string, Handler> handlers);
};

}  // namespace shardfs::control
