#include "teststore/counters.h"

#include <algorithm>
#include <utility>

namespace shardfs::teststore {

struct LiveKey {
  std::atomic<uint64_t> body_bytes{0};
  KeyStats stats;  // under the epoch's mutex; its body_bytes is not used
};

/// All that a reset forgets.
struct Epoch {
  std::atomic<uint64_t> body_bytes{0};
  mutable std::mutex mutex;
  Stats stats;  // without keys, body_bytes, connections_open and requests_now
  std::map<std::pair<std::string, std::string>, LiveKey> keys;
  std::vector<RequestRecord> log;
  uint64_t next_number = 1;
};

Counters::Counters() : epoch_(std::make_shared<Epoch>()) {}

std::shared_ptr<Epoch> Counters::epoch() const {
  std::lock_guard lock(mutex_);
  return epoch_;
}

Counters::Running::Running(Counters& counters, const Request& request, const AskedRange& asked)
    : counters_(counters), epoch_(counters.epoch()) {
  const auto kind = static_cast<size_t>(request.kind);
  const uint64_t now = concurrent_ = counters.requests_now_.fetch_add(1) + 1;
  std::lock_guard lock(epoch_->mutex);
  ++epoch_->stats.requests[kind];
  epoch_->stats.max_concurrent_requests = std::max(epoch_->stats.max_concurrent_requests, now);
  RequestRecord record{epoch_->next_number++,
                       request.kind,
                       request.method,
                       request.bucket,
                       request.key,
                       std::string(request.header("range").value_or("")),
                       {},
                       0};
  if (request.kind == Kind::kList) record.key = request.parameter("prefix").value_or("");
  if (request.kind == Kind::kGet) record.asked = asked;
  if (!request.key.empty()) {
    LiveKey& key = epoch_->keys[{request.bucket, request.key}];
    key_ = &key;
    ++key.stats.requests[kind];
    key.stats.max_concurrent = std::max(key.stats.max_concurrent, ++key.stats.concurrent);
    if (request.kind == Kind::kGet && key.stats.ranges.size() < kRecentLimit) key.stats.ranges.push_back(asked);
  }
  if (epoch_->log.size() < kRecentLimit) {
    record_ = epoch_->log.size();
    epoch_->log.push_back(std::move(record));
  }
}

Counters::Running::~Running() { finish(); }

void Counters::Running::finish() {
  if (std::exchange(finished_, true)) return;
  counters_.requests_now_.fetch_sub(1);
  if (key_ == nullptr) return;
  std::lock_guard lock(epoch_->mutex);
  --key_->stats.concurrent;
}

void Counters::Running::answered(unsigned status) {
  std::lock_guard lock(epoch_->mutex);
  ++epoch_->stats.statuses[status];
  if (record_ < epoch_->log.size()) epoch_->log[record_].status = status;
}

void Counters::Running::body(uint64_t bytes) {
  epoch_->body_bytes.fetch_add(bytes);
  if (key_ != nullptr) key_->body_bytes.fetch_add(bytes);
}

void Counters::connection_opened() {
  connections_open_.fetch_add(1);
  const auto current = epoch();
  std::lock_guard lock(current->mutex);
  ++current->stats.connections_accepted;
}

void Counters::connection_closed() { connections_open_.fetch_sub(1); }

Stats Counters::stats() const {
  const auto current = epoch();
  std::lock_guard lock(current->mutex);
  Stats stats = current->stats;
  stats.body_bytes = current->body_bytes.load();
  stats.connections_open = connections_open_.load();
  stats.requests_now = requests_now_.load();
  for (const auto& [name, key] : current->keys) {
    KeyStats& copy = stats.keys[name] = key.stats;
    copy.body_bytes = key.body_bytes.load();
  }
  return stats;
}

std::vector<RequestRecord> Counters::log() const {
  const auto current = epoch();
  std::lock_guard lock(current->mutex);
  return current->log;
}

void Counters::reset() {
  auto fresh = std::make_shared<Epoch>();
  std::lock_guard lock(mutex_);
  epoch_.swap(fresh);
}

}  // namespace shardfs::teststore
