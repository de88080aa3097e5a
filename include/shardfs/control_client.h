// ControlClient: asks a running mount, through its control socket, for stats and other commands.
// Not a daemon's side: that is src/control/server.h. Needs nothing but the standard library and tl::expected.
// Thread rule: thread-compatible; each request uses a connection of its own and blocks up to the time-out.
// Protocol: a line {"command": NAME, "arguments": OBJECT}; a line {"ok": true, "result": OBJECT} or
// {"ok": false, "error": {"code": NAME, "message": TEXT}} as the answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace shardfs {

struct ControlError {
  enum class Kind {
    kNoMount,     // nothing listens there: not mounted, or the mount has ended
    kPermission,  // the mount belongs to another user
    kTimeout,     // no answer in time
    kRefused,     // the mount answered with an error: unknown command, bad arguments
    kProtocol,    // the connection broke, or the answer is not one of this protocol
  };
  Kind kind = Kind::kProtocol;
  std::string message;
};

template <class T>
using ControlResult = tl::expected<T, ControlError>;

/// What became of a hint.
struct HintResult {
  size_t accepted = 0;  // names
  size_t unknown = 0;   // names of no file in the mount, and what lies outside of it
};

class ControlClient {
 public:
  /// target: a mountpoint of this user, or the path of a control socket. Checks that something listens there.
  /// Errors: kNoMount, kPermission, kTimeout.
  static ControlResult<ControlClient> connect(const std::string& target,
                                              std::chrono::milliseconds timeout = std::chrono::seconds(10));

  /// arguments: a JSON object. The answer is the JSON text of the result, without a line end.
  /// Blocking. Errors: all kinds.
  ControlResult<std::string> request(std::string_view command, std::string_view arguments = "{}");

  /// One snapshot; its fields are listed in docs/metrics.md. Errors: all kinds.
  ControlResult<std::string> stats() { return request("stats"); }

  /// The files that will be opened next, in this order, so that the mount can fetch them ahead: paths relative to the
  /// mountpoint, or absolute below it. For the directories named it takes the place of the last hint. A name that means
  /// nothing is counted, never an error. Any number; a long list goes in several requests. Errors: all kinds.
  ControlResult<HintResult> hint(const std::vector<std::string>& files);

  const std::string& socket_path() const { return socket_path_; }

 private:
  ControlClient(std::string socket_path, std::chrono::milliseconds timeout)
      : socket_path_(std::move(socket_path)), timeout_(timeout) {}

  std::string socket_path_;
  std::chrono::milliseconds timeout_;
};

}  // namespace shardfs
