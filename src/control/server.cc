#include "control/server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/executor.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace shardfs::control {
namespace {

using base::Code;
using base::fail;
using base::fail_errno;
using base::Result;
using base::UniqueFd;
using SteadyClock = std::chrono::steady_clock;

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string error_answer(Code code, const std::string& message) {
  return dump({{"ok", false}, {"error", {{"code", base::name_of(code)}, {"message", message}}}});
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd make_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool somebody_listens(const sockaddr_un& address) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A full queue answers EAGAIN: somebody is there too.
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN;
}

class UnixServer final : public Server {
 public:
  UnixServer(std::string path, UniqueFd socket, UniqueFd stop, std::map<std::string, Handler> handlers,
             ServerLimits limits)
      : path_(std::move(path)),
        socket_(std::move(socket)),
        stop_(std::move(stop)),
        handlers_(std::move(handlers)),
        limits_(limits) {
    struct stat made {};
    if (::stat(path_.c_str(), &made) == 0) inode_ = made.st_ino;
    acceptor_ = std::thread([this]() noexcept { accept_all(); });
  }

  ~UnixServer() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    slot_free_.notify_all();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
    acceptor_.join();
    for (auto& client : clients_) client.thread.join();
    struct stat found {};
    if (::stat(path_.c_str(), &found) == 0 && found.st_ino == inode_) ::unlink(path_.c_str());
  }

 private:
  struct Client {
    std::thread thread;
    bool ended = false;
  };

  void accept_all() noexcept {
    base::name_this_thread("control");
    while (wait_for_slot() && wait_for(socket_.get(), POLLIN, std::nullopt)) {
      UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) pause();
        continue;
      }
      start(std::move(client));
    }
  }

  // Also joins the threads of clients that have left. False when the server stops.
  bool wait_for_slot() noexcept {
    std::list<Client> ended;
    {
      std::unique_lock lock(mutex_);
      slot_free_.wait(lock, [this] { return stopping_ || active_ < limits_.clients; });
      for (auto at = clients_.begin(); at != clients_.end();) {
        const auto client = at++;
        if (client->ended) ended.splice(ended.end(), clients_, client);
      }
      if (stopping_) {
        clients_.splice(clients_.end(), ended);
        return false;
      }
    }
    for (auto& client : ended) client.thread.join();
    return true;
  }

  void start(UniqueFd socket) noexcept {
    std::lock_guard lock(mutex_);
    try {
      Client& client = clients_.emplace_back();
      ++active_;
      client.thread = std::thread([this, &client, socket = std::move(socket)]() mutable noexcept {
        base::name_this_thread("control-client");
        serve(socket.get());
        socket.reset();
        {
          std::lock_guard lock(mutex_);
          client.ended = true;
          --active_;
        }
        slot_free_.notify_all();
      });
    } catch (const std::exception& error) {  // no more threads
      if (!clients_.empty() && !clients_.back().thread.joinable()) {
        clients_.pop_back();
        --active_;
      }
      base::warn_once("control threads", "control socket: {}", error.what());
    }
  }

  void serve(int socket) noexcept {
    try {
      std::string received;
      while (const auto line = read_line(socket, received)) {
        if (!write_all(socket, answer(*line) + "\n")) return;
      }
    } catch (const std::exception& error) {
      base::log_warning("control socket: {}", error.what());
    }
  }

  std::optional<std::string> read_line(int socket, std::string& received) {
    const auto deadline = SteadyClock::now() + limits_.silence;
    size_t searched = 0;
    for (;;) {
      const size_t end = received.find('\n', searched);
      if (end != std::string::npos) {
        std::string line = received.substr(0, end);
        received.erase(0, end + 1);
        return line;
      }
      searched = received.size();
      if (received.size() > limits_.line_bytes) {
        write_all(
            socket,
            error_answer(Code::kInvalid, fmt::format("a request of more than {} bytes", limits_.line_bytes)) + "\n");
        return std::nullopt;
      }
      if (!wait_for(socket, POLLIN, deadline)) return std::nullopt;
      char piece[4096];
      const ssize_t count = ::recv(socket, piece, sizeof(piece), 0);
      if (count > 0) {
        received.append(piece, static_cast<size_t>(count));
      } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        return std::nullopt;
      }
    }
  }

  bool write_all(int socket, const std::string& text) {
    const auto deadline = SteadyClock::now() + limits_.silence;
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count >= 0) {
        sent += static_cast<size_t>(count);
      } else if (errno == EAGAIN) {
        if (!wait_for(socket, POLLOUT, deadline)) return false;
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

  // False at the deadline and when the server stops.
  bool wait_for(int socket, short events, std::optional<SteadyClock::time_point> deadline) const {
    for (;;) {
      int timeout_ms = -1;
      if (deadline) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - SteadyClock::now());
        if (left.count() <= 0) return false;
        timeout_ms = static_cast<int>(std::min<int64_t>(left.count(), 60000));
      }
      pollfd watched[2] = {{socket, events, 0}, {stop_.get(), POLLIN, 0}};
      const int ready = ::poll(watched, 2, timeout_ms);
      if (ready < 0 && errno != EINTR) return false;
      if (ready > 0 && watched[1].revents != 0) return false;
      if (ready > 0 && watched[0].revents != 0) return true;
    }
  }

  void pause() const {
    pollfd watched = {stop_.get(), POLLIN, 0};
    ::poll(&watched, 1, 100);  // until somebody has closed a file
  }

  std::string answer(const std::string& line) const {
    const auto request = nlohmann::json::parse(line, nullptr, false);
    if (!request.is_object()) return error_answer(Code::kInvalid, "the request is not a JSON object");
    const auto command = request.find("command");
    if (command == request.end() || !command->is_string()) {
      return error_answer(Code::kInvalid, "the request has no \"command\"");
    }
    const auto name = command->get<std::string>();
    const auto handler = handlers_.find(name);
    if (handler == handlers_.end()) return error_answer(Code::kUnsupported, "unknown command \"" + name + "\"");
    const auto arguments = request.value("arguments", nlohmann::json::object());
    if (!arguments.is_object()) return error_answer(Code::kInvalid, "\"arguments\" is not a JSON object");
    return run(name, handler->second, dump(arguments));
  }

  static std::string run(const std::string& name, const Handler& handler, const std::string& arguments) {
    try {
      const auto result = handler(arguments);
      if (!result) return error_answer(result.error().code, result.error().message);
      auto json = nlohmann::json::parse(*result, nullptr, false);
      if (json.is_discarded()) return error_answer(Code::kInvalid, "\"" + name + "\" gave no JSON");
      return dump({{"ok", true}, {"result", std::move(json)}});
    } catch (const std::exception& error) {
      return error_answer(Code::kInvalid, "\"" + name + "\" failed: " + error.what());
    }
  }

  const std::string path_;
  const UniqueFd socket_;
  const UniqueFd stop_;  // an eventfd: readable once the server stops
  const std::map<std::string, Handler> handlers_;
  const ServerLimits limits_;
  ino_t inode_ = 0;  // of the socket file: another server may have replaced it

  std::mutex mutex_;  // guards all below
  std::condition_variable slot_free_;
  std::list<Client> clients_;
  size_t active_ = 0;
  bool stopping_ = false;

  std::thread acceptor_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const std::string& path, std::map<std::string, Handler> handlers,
                                               ServerLimits limits) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Code::kInvalid, "the control socket's path is empty or too long: " + path);
  }
  const sockaddr_un address = address_of(path);
  UniqueFd socket = make_socket();
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!socket.valid() || !stop.valid()) return fail_errno(Code::kIo, "make the control socket", errno);
  const auto bind_it = [&] {
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  };
  // The socket file gets its mode from the socket's own, so that it is never open to others.
  ::fchmod(socket.get(), 0600);
  if (!bind_it()) {
    if (errno != EADDRINUSE) return fail_errno(Code::kIo, "bind the control socket " + path, errno);
    if (somebody_listens(address)) return fail(Code::kInvalid, "another mount listens on the control socket " + path);
    ::unlink(path.c_str());
    if (!bind_it()) return fail_errno(Code::kIo, "bind the control socket " + path, errno);
  }
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), 64) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return fail_errno(Code::kIo, "listen on the control socket " + path, error);
  }
  return std::make_unique<UnixServer>(path, std::move(socket), std::move(stop), std::move(handlers), limits);
}

}  // namespace shardfs::control
