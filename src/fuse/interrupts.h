// Interrupts: finds the request that an INTERRUPT is for. libfuse keeps only a plain pointer per request and may call
// with it while another thread answers and frees that request; so it is given a number, looked up here.
// Thread rule: thread-safe. Owns nothing: a request that has been answered is not in it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace shardfs::fuse {

class Request;

class Interrupts {
 public:
  uint64_t add(std::weak_ptr<Request> request);
  void remove(uint64_t number);
  /// Null if it was answered.
  std::shared_ptr<Request> find(uint64_t number) const;

 private:
  mutable std::mutex mutex_;  // guards all below
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, std::weak_ptr<Request>> requests_;
};

}  // namespace shardfs::fuse
