// Connection: answers the requests of one client, one after the other, until it leaves or the server stops.
// Thread rule: confined to one thread. Owns neither the core nor the channel.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "teststore/channel.h"
#include "teststore/core.h"
#include "teststore/delivery.h"

namespace shardfs::teststore {

class Connection {
 public:
  Connection(Core& core, Channel& channel) : core_(core), channel_(channel) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  void run();

 private:
  using Time = std::chrono::steady_clock::time_point;

  // Each returns false when the connection is over.
  bool serve(Request& request, bool keep_alive);
  bool serve_control(Request& request, bool keep_alive);
  bool wait_until(Time until);
  bool wait_at(const Holds::Held& hold);
  bool deliver(const Request& request, Reply& reply, const Delivery& delivery, Counters::Running* running,
               bool keep_alive);
  bool send_body(const Reply& reply, const Delivery& delivery, Counters::Running* running);
  bool send_pieces(const Reply& reply, const Delivery& delivery, uint64_t begin, uint64_t end, int file,
                   Counters::Running* running);
  bool send_piece(const Reply& reply, std::optional<uint64_t> flip, uint64_t begin, uint64_t end, int file);
  bool end_early(Delivery::Ending ending);

  Core& core_;
  Channel& channel_;
  bool counted_ = false;  // once it has brought a request that is not for the control plane
  std::vector<std::byte> buffer_;
  Time due_{};  // when the last piece was through, with a limited bandwidth
};

}  // namespace shardfs::teststore
