#include "s3/transport.h"

#include <algorithm>

namespace shardfs::s3 {
namespace {

TransportOptions transport_options(const Settings& settings) {
  TransportOptions out;
  out.verify_tls = settings.options.verify_tls;
  out.ca_file = settings.ca_file;
  out.ca_folder = settings.ca_folder;
  out.user_agent = settings.options.user_agent.empty() ? "shardfs/" SHARDFS_VERSION : settings.options.user_agent;
  out.connect_timeout_ms = static_cast<long>(settings.options.connect_timeout.count());
  out.idle_connections = settings.options.connections;
  if (const uint64_t limit = settings.options.max_bandwidth_bytes_per_s; limit != 0) {
    // One read shall not be more than 20 ms of the limit.
    out.receive_buffer_bytes =
        std::clamp(static_cast<long>(std::min<uint64_t>(limit, 1u << 30) / 50), 16L << 10, out.receive_buffer_bytes);
  }
  return out;
}

}  // namespace

Transport::Transport(const Settings& settings, base::Metrics& metrics)
    : options_(transport_options(settings)),
      bandwidth_(settings.options.max_bandwidth_bytes_per_s),
      admission_(settings.options.connections, metrics) {}

base::Result<std::unique_ptr<Transport>> Transport::make(const Settings& settings, base::Clock& clock,
                                                         base::Metrics& metrics) {
  std::unique_ptr<Transport> out(new Transport(settings, metrics));
  const unsigned loops = std::clamp(settings.options.loops, 1u, std::max(1u, settings.options.connections));
  for (unsigned i = 0; i < loops; ++i) {
    auto loop = EventLoop::make(i, out->options_, out->bandwidth_, metrics.counter("store_received_bytes"), clock);
    if (!loop) return tl::unexpected(loop.error());
    auto lane = std::make_unique<Lane>();
    lane->loop = std::move(*loop);
    out->lanes_.push_back(std::move(lane));
  }
  return out;
}

Lane& Transport::pick_lane() {
  Lane* best = lanes_.front().get();
  for (const auto& lane : lanes_) {
    if (lane->load.load(std::memory_order_relaxed) < best->load.load(std::memory_order_relaxed)) best = lane.get();
  }
  return *best;
}

}  // namespace shardfs::s3
