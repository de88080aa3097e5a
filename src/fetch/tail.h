// Tail: how long the store's answers usually take, and from when on one is late. Pure: no clock, no I/O.
// Thread rule: thread-compatible. It knows the last 200 answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardfs::fetch {

class Tail {
 public:
  struct Limits {
    std::chrono::nanoseconds silence;       // to the first byte, or since the last one
    std::chrono::nanoseconds per_mebibyte;  // of body
  };

  void add_first_byte(std::chrono::nanoseconds after) { first_bytes_.add(after); }
  void add_body(uint64_t bytes, std::chrono::nanoseconds duration);
  /// Nothing while too little is known.
  std::optional<Limits> limits() const;

 private:
  class Recent {
   public:
    void add(std::chrono::nanoseconds value);
    size_t count() const { return values_.size(); }
    std::chrono::nanoseconds p95() const;  // zero: none

   private:
    std::vector<std::chrono::nanoseconds> values_;
    size_t next_ = 0;
  };
  Recent first_bytes_;
  Recent bodies_;  // each per MiB
};

}  // namespace shardfs::fetch
