// Mapping: a file's bytes in memory, shared and for reading only, of a file that may be cut while it is mapped.
// Where the file ends too early, or its disk gives nothing, zeros are read and the mapping is torn from then on;
// without this the process would die of SIGBUS. Any other SIGBUS does what it did before. Not for writing.
// Requires: threads that read it don't block SIGBUS, since the kernel ends a process that blocks the signal of a fault.
// Thread rule: thread-safe. Owns the mapping, not the descriptor.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace shardfs::base {

class Mapping {
 public:
  Mapping() = default;
  /// Of the file's first bytes. Errors: kCacheIo.
  static Result<Mapping> open(int fd, uint64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  const std::byte* data() const { return data_; }
  /// Some read found no bytes and got zeros.
  bool torn() const;

 private:
  struct Guarded;
  struct Table;
  static void on_bus_error(int number, siginfo_t* info, void* context) noexcept;

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  Guarded* guarded_ = nullptr;  // this mapping's entry in the table that the signal's handler reads
};

}  // namespace shardfs::base
