#include "control/sampler.h"

namespace shardfs::control {
namespace {

uint64_t sum_of(const base::Metrics& metrics, std::string_view name) {
  uint64_t sum = 0;
  for (const auto& entry : metrics.counters()) {
    if (entry.name == name) sum += entry.metric->value();
  }
  return sum;
}

}  // namespace

ThroughputSampler::ThroughputSampler(base::Metrics& metrics, const base::Clock& clock)
    : metrics_(metrics), clock_(clock) {
  sample();
}

ThroughputSampler::~ThroughputSampler() {
  metrics_.gauge("throughput_fetched_bytes_per_s").set(0);
  metrics_.gauge("throughput_read_bytes_per_s").set(0);
}

void ThroughputSampler::sample() {
  samples_.push_back({clock_.now(), sum_of(metrics_, "store_received_bytes"), sum_of(metrics_, "fs_read_bytes")});
  const Sample& last = samples_.back();
  while (samples_.size() > 2 && last.at - samples_[1].at >= kSpan) samples_.pop_front();
  const Sample& first = samples_.front();
  const double seconds = std::chrono::duration<double>(last.at - first.at).count();
  const auto rate = [seconds](uint64_t from, uint64_t to) {
    return seconds > 0 ? static_cast<int64_t>(static_cast<double>(to - from) / seconds) : int64_t{0};
  };
  metrics_.gauge("throughput_fetched_bytes_per_s").set(rate(first.fetched_bytes, last.fetched_bytes));
  metrics_.gauge("throughput_read_bytes_per_s").set(rate(first.read_bytes, last.read_bytes));
}

}  // namespace shardfs::control
