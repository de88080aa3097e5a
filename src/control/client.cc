#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/unique_fd.h"
#include "control/socket_path.h"
#include "shardfs/control_client.h"

namespace shardfs {
namespace {

using Kind = ControlError::Kind;

tl::unexpected<ControlError> fail(Kind kind, std::string message) {
  return tl::unexpected(ControlError{kind, std::move(message)});
}

std::string reason(int error) { return std::system_category().message(error); }

// The limit holds for each step on the socket, and a mount answers in one or two steps.
ControlResult<base::UniqueFd> open_socket(const std::string& path, std::chrono::milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return fail(Kind::kNoMount, "too long for a socket: " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail(Kind::kProtocol, "make a socket: " + reason(errno));
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(timeout.count() / 1000);
  limit.tv_usec = static_cast<suseconds_t>(timeout.count() % 1000 * 1000);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
  const int error = errno;
  if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR) {
    return fail(Kind::kNoMount, "no mount listens on " + path);
  }
  if (error == EACCES || error == EPERM) return fail(Kind::kPermission, "connect to " + path + ": " + reason(error));
  if (error == EAGAIN || error == ETIMEDOUT) return fail(Kind::kTimeout, "connect to " + path + ": no answer in time");
  return fail(Kind::kProtocol, "connect to " + path + ": " + reason(error));
}

ControlResult<std::string> exchange(int socket, const std::string& line) {
  const auto broken = [](int error) {
    return error == EAGAIN || error == EWOULDBLOCK ? fail(Kind::kTimeout, "the mount does not answer in time")
                                                   : fail(Kind::kProtocol, "the connection broke: " + reason(error));
  };
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    // A request that is too long is answered before it is read.
    if (count < 0 && errno == EPIPE) break;
    if (count < 0) return broken(errno);
    sent += static_cast<size_t>(count);
  }
  std::string received;
  for (;;) {
    char piece[65536];
    const ssize_t count = ::recv(socket, piece, sizeof(piece), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return broken(errno);
    if (count == 0) return fail(Kind::kProtocol, "the mount closed the connection without an answer");
    received.append(piece, static_cast<size_t>(count));
    if (received.back() == '\n') break;
  }
  received.pop_back();
  return received;
}

// Of one hint. Source: half of what a server takes in one line; and the kernel's PATH_MAX: nothing has a longer path.
constexpr size_t kHintBytes = 512 << 10;
constexpr size_t kPathBytes = 4096;

bool is_socket(const std::string& path) {
  if (!path.ends_with(".sock")) return false;  // a mountpoint may hang: it is not looked at
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

}  // namespace

ControlResult<ControlClient> ControlClient::connect(const std::string& target, std::chrono::milliseconds timeout) {
  std::string path = target;
  if (!is_socket(target)) {
    const auto mountpoint = control::canonical_mountpoint(target);
    if (!mountpoint) return fail(Kind::kNoMount, mountpoint.error().message);
    const auto folder = control::runtime_folder();
    if (!folder) return fail(Kind::kNoMount, folder.error().message);
    const auto socket = control::socket_path(*folder, *mountpoint);
    if (!socket) return fail(Kind::kNoMount, socket.error().message);
    path = *socket;
  }
  if (auto socket = open_socket(path, timeout); !socket) {
    if (socket.error().kind != Kind::kNoMount) return tl::unexpected(socket.error());
    return fail(Kind::kNoMount, "no shardfs mount of this user on " + target);
  }
  return ControlClient(std::move(path), timeout);
}

ControlResult<std::string> ControlClient::request(std::string_view command, std::string_view arguments) {
  auto parsed = nlohmann::json::parse(arguments.begin(), arguments.end(), nullptr, false);
  if (!parsed.is_object()) return fail(Kind::kRefused, "the arguments are not a JSON object");
  const nlohmann::json request = {{"command", command}, {"arguments", std::move(parsed)}};
  auto socket = open_socket(socket_path_, timeout_);
  if (!socket) return tl::unexpected(socket.error());
  const auto line =
      exchange(socket->get(), request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!line) return tl::unexpected(line.error());
  const auto answer = nlohmann::json::parse(*line, nullptr, false);
  const auto ok = answer.is_object() ? answer.find("ok") : answer.end();
  if (!answer.is_object() || ok == answer.end() || !ok->is_boolean()) {
    return fail(Kind::kProtocol, "the mount's answer is not one of this protocol");
  }
  if (ok->get<bool>()) {
    const auto result = answer.find("result");
    return result == answer.end() ? std::string("{}") : result->dump();
  }
  std::string message = "the mount refused the request";
  if (const auto error = answer.find("error"); error != answer.end() && error->is_object()) {
    if (const auto text = error->find("message"); text != error->end() && text->is_string()) message = *text;
  }
  return fail(Kind::kRefused, std::move(message));
}

ControlResult<HintResult> ControlClient::hint(const std::vector<std::string>& files) {
  HintResult result;
  auto at = files.begin();
  bool append = false;
  do {
    std::string names;  // in JSON
    for (; at != files.end() && names.size() < kHintBytes; ++at) {
      if (at->size() > kPathBytes) {
        ++result.unknown;
        continue;
      }
      names += names.empty() ? "" : ",";
      names += nlohmann::json(*at).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    const auto answer =
        request("hint", std::string(R"({"append":)") + (append ? "true" : "false") + R"(,"files":[)" + names + "]}");
    if (!answer) return tl::unexpected(answer.error());
    const auto counts = nlohmann::json::parse(*answer, nullptr, false);
    if (!counts.is_object() || !counts.contains("accepted") || !counts.contains("unknown") ||
        !counts["accepted"].is_number_unsigned() || !counts["unknown"].is_number_unsigned()) {
      return fail(Kind::kProtocol, "the mount's answer to a hint is not one of this protocol");
    }
    result.accepted += counts["accepted"].get<size_t>();
    result.unknown += counts["unknown"].get<size_t>();
    append = true;
  } while (at != files.end());
  return result;
}

}  // namespace shardfs
