#include "control/server.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "base/unique_fd.h"
#include "shardfs/control_client.h"

namespace shardfs::control {
namespace {

using nlohmann::json;
using Kind = ControlError::Kind;

std::map<std::string, Handler> handlers() {
  std::map<std::string, Handler> result;
  result["echo"] = [](const std::string& arguments) -> base::Result<std::string> { return arguments; };
  result["fail"] = [](const std::string&) -> base::Result<std::string> {
    return base::fail(base::Code::kNotFound, "no such shard");
  };
  result["throw"] = [](const std::string&) -> base::Result<std::string> { throw std::runtime_error("broken"); };
  result["nonsense"] = [](const std::string&) -> base::Result<std::string> { return std::string("{not json"); };
  return result;
}

base::UniqueFd raw_connection(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return socket;
}

void send_text(const base::UniqueFd& socket, const std::string& text) {
  REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

// Up to the line's end; what had arrived when the server closed the connection otherwise.
std::string receive_line(const base::UniqueFd& socket) {
  std::string line;
  char byte = 0;
  while (::recv(socket.get(), &byte, 1, 0) == 1) {
    if (byte == '\n') return line;
    line += byte;
  }
  return line;
}

struct Fixture {
  explicit Fixture(ServerLimits limits = {}) : path(folder.path() + "/control.sock") {
    auto made = Server::listen(path, handlers(), limits);
    REQUIRE(made.has_value());
    server = std::move(*made);
  }
  TemporaryFolder folder;
  std::string path;
  std::unique_ptr<Server> server;
};

TEST_CASE("a command gets its arguments and its answer comes back") {
  Fixture fixture;
  auto client = ControlClient::connect(fixture.path);
  REQUIRE(client.has_value());
  const auto answer = client->request("echo", R"({"a": [1, 2, "drei"]})");
  REQUIRE(answer.has_value());
  CHECK(json::parse(*answer) == json{{"a", {1, 2, "drei"}}});
  // One client may ask again.
  CHECK(client->request("echo").value() == "{}");
}

TEST_CASE("a handler's error, an exception and nonsense become refusals") {
  Fixture fixture;
  auto client = ControlClient::connect(fixture.path);
  REQUIRE(client.has_value());
  const auto failed = client->request("fail");
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().kind == Kind::kRefused);
  CHECK(failed.error().message == "no such shard");
  CHECK(client->request("throw").error().kind == Kind::kRefused);
  CHECK(client->request("nonsense").error().kind == Kind::kRefused);
  const auto unknown = client->request("brew");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message == "unknown command \"brew\"");
  CHECK(client->request("echo", "[1]").error().kind == Kind::kRefused);
  CHECK(client->request("echo", "{").error().kind == Kind::kRefused);
}

TEST_CASE("bad requests are answered on the same connection") {
  Fixture fixture;
  const auto socket = raw_connection(fixture.path);
  for (const char* line : {"nonsense", "[]", "{}", R"({"command": 7})", R"({"command":"echo","arguments":3})"}) {
    send_text(socket, std::string(line) + "\n");
    const auto answer = json::parse(receive_line(socket));
    CHECK(answer["ok"] == false);
    CHECK(answer["error"]["code"] == "invalid");
  }
  // Two requests in one piece, one request in two.
  send_text(socket, "{\"command\":\"echo\"}\n{\"command\":\"echo\",\"argu");
  CHECK(json::parse(receive_line(socket))["ok"] == true);
  send_text(socket, "ments\":{\"x\":1}}\n");
  CHECK(json::parse(receive_line(socket))["result"] == json{{"x", 1}});
}

TEST_CASE("a request that is too long is refused and the connection closed") {
  Fixture fixture({.clients = 2, .line_bytes = 1000});
  const auto socket = raw_connection(fixture.path);
  send_text(socket, std::string(1001, 'x'));
  CHECK(json::parse(receive_line(socket))["ok"] == false);
  CHECK(receive_line(socket).empty());
}

TEST_CASE("a silent client is dropped and does not keep others out") {
  Fixture fixture({.clients = 1, .silence = std::chrono::milliseconds(20)});
  const auto silent = raw_connection(fixture.path);
  // The only place is taken until the silent one is dropped.
  auto client = ControlClient::connect(fixture.path);
  REQUIRE(client.has_value());
  CHECK(client->request("echo").has_value());
  CHECK(receive_line(silent).empty());
}

TEST_CASE("more clients than places are all answered") {
  Fixture fixture({.clients = 3});
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 24; ++i) {
    threads.emplace_back([&, i] {
      auto client = ControlClient::connect(fixture.path);
      if (!client) return;
      const auto answer = client->request("echo", json{{"i", i}}.dump());
      if (answer && json::parse(*answer) == json{{"i", i}}) ++answered;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(answered == 24);
}

TEST_CASE("the server ends while clients are connected, and takes its socket file with it") {
  Fixture fixture;
  const auto socket = raw_connection(fixture.path);
  struct stat found {};
  REQUIRE(::stat(fixture.path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  fixture.server.reset();
  CHECK(receive_line(socket).empty());
  CHECK(::stat(fixture.path.c_str(), &found) != 0);
  const auto client = ControlClient::connect(fixture.path);
  REQUIRE_FALSE(client.has_value());
  CHECK(client.error().kind == Kind::kNoMount);
}

TEST_CASE("a dead socket file is replaced, a live one is refused") {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/control.sock";
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const base::UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  }
  auto server = Server::listen(path, handlers());
  REQUIRE(server.has_value());
  const auto second = Server::listen(path, handlers());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == base::Code::kInvalid);
  // The first one still answers.
  CHECK(ControlClient::connect(path).value().request("echo").has_value());
}

TEST_CASE("a path that no socket can have is refused") {
  CHECK(Server::listen("/tmp/" + std::string(120, 'x'), handlers()).error().code == base::Code::kInvalid);
  CHECK(Server::listen("/nonexistent/folder/control.sock", handlers()).error().code == base::Code::kIo);
}

// Keeps what it is told.
struct HintFixture {
  HintFixture() {
    std::map<std::string, Handler> handlers;
    handlers["hint"] = [this](const std::string& arguments) -> base::Result<std::string> {
      ++requests;
      const auto request = json::parse(arguments);
      if (!request["append"].get<bool>()) names.clear();
      for (const auto& name : request["files"]) names.push_back(name);
      return answer.empty() ? json{{"accepted", request["files"].size()}, {"unknown", 1}}.dump() : answer;
    };
    server = Server::listen(folder.path() + "/control.sock", std::move(handlers)).value();
  }
  ControlResult<HintResult> hint(const std::vector<std::string>& files) {
    return ControlClient::connect(folder.path() + "/control.sock").value().hint(files);
  }
  TemporaryFolder folder;
  int requests = 0;
  std::vector<std::string> names;
  std::string answer;
  std::unique_ptr<Server> server;
};

TEST_CASE("a hint of a few names is one request") {
  HintFixture fixture;
  const std::vector<std::string> files = {"b", "a \"quoted\" \\ one", "", "line\nend", "\xc3\xbc"};
  const auto result = fixture.hint(files);
  REQUIRE(result.has_value());
  CHECK(result->accepted == 5);
  CHECK(result->unknown == 1);
  CHECK(fixture.names == files);
  CHECK(fixture.requests == 1);
  CHECK(fixture.hint({}).value().accepted == 0);
  CHECK(fixture.names.empty());
}

TEST_CASE("a hint of 100,000 names goes in several requests, in order") {
  HintFixture fixture;
  std::vector<std::string> files;
  for (int i = 0; i < 100000; ++i) files.push_back("a/directory/of/shards/shard-" + std::to_string(i * 7919 % 100000));
  const auto result = fixture.hint(files);
  REQUIRE(result.has_value());
  CHECK(result->accepted == files.size());
  CHECK(fixture.names == files);
  CHECK(fixture.requests > 1);
  CHECK(fixture.requests < 20);
}

TEST_CASE("a hint with names longer than any path, and names that grow in JSON") {
  HintFixture fixture;
  std::vector<std::string> files(300, std::string(4000, '\x01'));
  files.emplace_back(2 << 20, 'x');
  const auto result = fixture.hint(files);
  REQUIRE(result.has_value());
  CHECK(result->accepted == 300);
  CHECK(result->unknown == 1 + static_cast<size_t>(fixture.requests));
  CHECK(fixture.names.size() == 300);
}

TEST_CASE("an answer to a hint that is not one of this protocol") {
  HintFixture fixture;
  for (const char* answer : {"{}", "[]", R"({"accepted": 1})", R"({"accepted": -1, "unknown": 0})"}) {
    fixture.answer = answer;
    CHECK(fixture.hint({"a"}).error().kind == Kind::kProtocol);
  }
}

}  // namespace
}  // namespace shardfs::control
