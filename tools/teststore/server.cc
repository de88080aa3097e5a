#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <condition_variable>
#include <fstream>
#include <list>
#include <sstream>
#include <thread>

#include "teststore/channel.h"
#include "teststore/connection.h"
#include "teststore/core.h"
#include "teststore/teststore.h"

namespace shardfs::teststore {
namespace {

// Bounds what counts as sent although the client has gone.
constexpr int kSendBufferBytes = 1 << 20;

// sendfile and TLS know no MSG_NOSIGNAL.
void block_sigpipe() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

base::Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return base::fail(base::Code::kIo, "cannot read " + path);
  return text.str();
}

}  // namespace

/// The listening socket, the thread that accepts, and a thread for each connection.
struct Server::Listener {
  struct Slot {
    std::thread thread;
    int fd = -1;  // -1: the thread has ended or is about to; under the mutex
    bool done = false;
  };

  Listener(Core& shared, base::UniqueFd listening, std::shared_ptr<ssl_ctx_st> context)
      : core(shared), socket(std::move(listening)), tls(std::move(context)) {}

  void accept_all() noexcept {
    block_sigpipe();
    while (wait_for_client()) {
      base::UniqueFd client(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) continue;
      const int on = 1;
      ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
      try {
        admit(std::move(client));
      } catch (const std::exception& error) {  // no thread or no memory for it: that client is turned away
        fmt::print(stderr, "teststore: a connection was refused: {}\n", error.what());
      }
    }
  }

  void admit(base::UniqueFd client) {
    std::lock_guard lock(mutex);
    Slot& slot = slots.emplace_back();
    try {
      slot.thread = std::thread([this, &slot, fd = client.get()] { serve(slot, base::UniqueFd(fd)); });
    } catch (...) {
      slots.pop_back();
      throw;
    }
    slot.fd = client.release();
    ++open;
  }

  // False when the server stops.
  bool wait_for_client() {
    {
      std::unique_lock lock(mutex);
      freed.wait(lock, [this] { return stopping || open < core.options.connection_limit; });
      if (stopping) return false;
    }
    join_ended();
    struct pollfd polled[] = {{socket.get(), POLLIN, 0}, {core.stop.fd(), POLLIN, 0}};
    ::poll(polled, 2, -1);
    return polled[1].revents == 0;
  }

  void join_ended() {
    std::list<Slot> ended;
    std::unique_lock lock(mutex);
    for (auto at = slots.begin(); at != slots.end();) {
      const auto slot = at++;
      if (slot->done) ended.splice(ended.end(), slots, slot);
    }
    lock.unlock();
    for (Slot& slot : ended) slot.thread.join();
  }

  void serve(Slot& slot, base::UniqueFd client) noexcept {
    block_sigpipe();
    try {
      const auto channel = tls ? tls_channel(client.get(), tls.get()) : plain_channel(client.get());
      if (channel) Connection(core, *channel).run();
    } catch (const std::exception& error) {
      fmt::print(stderr, "teststore: a connection was given up: {}\n", error.what());
    }
    std::lock_guard lock(mutex);
    slot.fd = -1;
    client.reset();
    --open;
    slot.done = true;
    freed.notify_all();
  }

  void stop() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
      for (const Slot& slot : slots) {
        if (slot.fd >= 0) ::shutdown(slot.fd, SHUT_RDWR);
      }
      freed.notify_all();
    }
    acceptor.join();
    std::list<Slot> last;
    {
      std::lock_guard lock(mutex);
      for (const Slot& slot : slots) {
        if (slot.fd >= 0) ::shutdown(slot.fd, SHUT_RDWR);
      }
      last.swap(slots);
    }
    for (Slot& slot : last) slot.thread.join();
  }

  Core& core;
  base::UniqueFd socket;
  std::shared_ptr<ssl_ctx_st> tls;
  uint16_t port = 0;
  std::string certificate_pem;
  std::thread acceptor;

  std::mutex mutex;
  std::condition_variable freed;
  std::list<Slot> slots;
  uint32_t open = 0;
  bool stopping = false;
};

Server::Server(Options options) : core_(std::make_unique<Core>()) {
  core_->shape.change([&](Shape& shape) { shape = options.shape; });
  set_credentials(options.access_key, options.secret_key);
  core_->options = std::move(options);
}

Server::~Server() { stop(); }

base::Result<void> Server::start() {
  const Options& options = core_->options;
  std::shared_ptr<ssl_ctx_st> context;
  Identity identity;
  if (options.tls) {
    if (options.certificate_file.empty()) {
      auto made = make_identity(options.address);
      if (!made) return tl::unexpected(made.error());
      identity = std::move(*made);
    } else {
      auto certificate = read_file(options.certificate_file);
      auto key = read_file(options.key_file);
      if (!certificate || !key) return tl::unexpected(certificate ? key.error() : certificate.error());
      identity = {std::move(*certificate), std::move(*key)};
    }
    auto made = tls_context(identity);
    if (!made) return tl::unexpected(made.error());
    context = std::move(*made);
    if (!options.write_certificate_to.empty()) {
      std::ofstream out(options.write_certificate_to, std::ios::binary);
      out << identity.certificate_pem;
      out.close();
      if (!out) return base::fail(base::Code::kIo, "cannot write " + options.write_certificate_to);
    }
  }

  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  if (::inet_pton(AF_INET, options.address.c_str(), &address.sin_addr) != 1) {
    return base::fail(base::Code::kInvalid, options.address + " is not an IPv4 address");
  }
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 1024) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<struct sockaddr*>(&address), &size) != 0) {
    return base::fail_errno(base::Code::kIo, fmt::format("cannot listen on {}:{}", options.address, options.port),
                            errno);
  }
  listener_ = std::make_unique<Listener>(*core_, std::move(socket), std::move(context));
  listener_->port = ntohs(address.sin_port);
  listener_->certificate_pem = std::move(identity.certificate_pem);
  listener_->acceptor = std::thread([listener = listener_.get()] { listener->accept_all(); });
  return {};
}

void Server::stop() {
  if (!listener_) return;
  core_->stop.open();
  listener_->stop();
  listener_.reset();
}

uint16_t Server::port() const { return listener_ ? listener_->port : 0; }

std::string Server::endpoint() const {
  return fmt::format("http{}://{}:{}", core_->options.tls ? "s" : "", core_->options.address, port());
}

std::string Server::certificate_pem() const { return listener_ ? listener_->certificate_pem : std::string(); }

void Server::make_bucket(std::string_view bucket) { core_->objects.make_bucket(bucket); }

std::string Server::put(std::string_view bucket, std::string_view key, std::string bytes, Attributes attributes) {
  return core_->objects.put(bucket, key, std::move(bytes), std::move(attributes));
}

std::string Server::put_generated(std::string_view bucket, std::string_view key, uint64_t size_bytes, uint64_t seed,
                                  Attributes attributes) {
  return core_->objects.put_generated(bucket, key, size_bytes, seed, std::move(attributes));
}

base::Result<std::string> Server::put_file(std::string_view bucket, std::string_view key, const std::string& path,
                                           Attributes attributes) {
  return core_->objects.put_file(bucket, key, path, std::move(attributes));
}

bool Server::remove(std::string_view bucket, std::string_view key) { return core_->objects.remove(bucket, key); }

Objects& Server::objects() { return core_->objects; }

void Server::set_credentials(std::string_view access_key, std::string secret_key, std::string session_token) {
  core_->credentials.change([&](Credentials& all) {
    if (secret_key.empty()) {
      all.erase(std::string(access_key));
    } else {
      all[std::string(access_key)] = {std::move(secret_key), std::move(session_token)};
    }
  });
}

void Server::set_shape(Shape shape) {
  core_->shape.change([&](Shape& value) { value = shape; });
}

Stats Server::stats() const { return core_->counters.stats(); }

KeyStats Server::key_stats(std::string_view bucket, std::string_view key) const {
  Stats stats = core_->counters.stats();
  return std::move(stats.keys[{std::string(bucket), std::string(key)}]);
}

std::vector<RequestRecord> Server::log() const { return core_->counters.log(); }
void Server::reset_stats() { core_->counters.reset(); }
uint64_t Server::add_fault(Fault fault) { return core_->faults.add(std::move(fault)); }
uint64_t Server::fired(uint64_t fault) const { return core_->faults.fired(fault); }
void Server::clear_faults() { core_->faults.clear(); }
uint64_t Server::hold(Match match, int64_t at_byte) { return core_->holds.add(std::move(match), at_byte); }
void Server::release(uint64_t hold) { core_->holds.release(hold); }
size_t Server::waiting() const { return core_->holds.waiting(); }

bool Server::await_waiting(size_t count, std::chrono::milliseconds patience) const {
  return core_->holds.await_waiting(count, patience);
}

}  // namespace shardfs::teststore
