// Server: an S3 server for tests and the demo, in this process, on a local port.
// It keeps keys in a map, so any byte string is a key; checks signatures; pages as S3 does; serves generated objects of
// any size from a small buffer; shapes latency and bandwidth; counts; and does wrong on demand (faults.h).
// Not a store: nothing lasts, and one thread a connection is all its concurrency.
// Thread rule: thread-safe, but for start and stop, which one thread calls. Owns its threads and sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "teststore/counters.h"
#include "teststore/faults.h"
#include "teststore/generate.h"
#include "teststore/objects.h"

namespace shardfs::teststore {

/// What the network and the store would cost.
struct Shape {
  std::chrono::milliseconds first_byte_delay{0};  // before the head of every GET and HEAD of an object
  std::chrono::milliseconds list_delay{0};        // before every page of a listing
  uint64_t connection_bytes_per_s = 0;            // 0: as fast as it goes
};

struct Options {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one
  std::string access_key = "TESTSTOREKEY";
  std::string secret_key = "teststore-secret";
  std::string region = "us-east-1";
  bool require_signature = true;  // false: unsigned requests pass too
  bool tls = false;
  std::string certificate_file;  // PEM, with key_file; both empty: a certificate for address and localhost is made
  std::string key_file;
  std::string write_certificate_to;  // a file for the clients' CA bundle; empty: none is written
  Shape shape;
  uint32_t max_keys = 1000;  // in one page of a listing, whatever is asked for
  uint32_t connection_limit = 512;
};

class Server {
 public:
  explicit Server(Options options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens; requests are answered when it returns. Errors: kIo, kInvalid (certificate).
  base::Result<void> start();
  /// Ends every connection, also held and delayed ones. Blocks until the last thread is gone; may be repeated.
  void stop();

  uint16_t port() const;
  std::string endpoint() const;         // http://127.0.0.1:PORT
  std::string certificate_pem() const;  // empty without TLS

  void make_bucket(std::string_view bucket);
  std::string put(std::string_view bucket, std::string_view key, std::string bytes, Attributes attributes = {});
  std::string put_generated(std::string_view bucket, std::string_view key, uint64_t size_bytes, uint64_t seed,
                            Attributes attributes = {});
  base::Result<std::string> put_file(std::string_view bucket, std::string_view key, const std::string& path,
                                     Attributes attributes = {});
  bool remove(std::string_view bucket, std::string_view key);
  Objects& objects();

  /// Another pair that is accepted from now on; an empty secret takes the key away.
  void set_credentials(std::string_view access_key, std::string secret_key, std::string session_token = {});
  void set_shape(Shape shape);

  Stats stats() const;
  KeyStats key_stats(std::string_view bucket, std::string_view key) const;
  std::vector<RequestRecord> log() const;
  void reset_stats();

  uint64_t add_fault(Fault fault);
  uint64_t fired(uint64_t fault) const;
  void clear_faults();

  uint64_t hold(Match match, int64_t at_byte = -1);  // see Holds
  void release(uint64_t hold = 0);
  size_t waiting() const;
  bool await_waiting(size_t count, std::chrono::milliseconds patience = std::chrono::seconds(30)) const;

 private:
  struct Listener;
  std::unique_ptr<struct Core> core_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace shardfs::teststore
