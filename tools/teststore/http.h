// HTTP/1.1 over a channel: the one place that uses the HTTP library (Boost.Beast).
// Thread rule: confined to its connection's thread. Does not own the channel.
#pragma once

#include <string>

#include "teststore/channel.h"
#include "teststore/message.h"

namespace shardfs::teststore {

class RequestReader {
 public:
  enum class Outcome { kRequest, kEnd, kMalformed };

  explicit RequestReader(Channel& channel) : channel_(channel) {}
  /// Blocks for one whole request, with its body; answers "Expect: 100-continue" on the way.
  Outcome read(Request& request, bool& keep_alive);

 private:
  Channel& channel_;
  std::string buffer_;  // received, not yet parsed: [begin_, size)
  size_t begin_ = 0;
};

/// Status line and headers, with the empty line.
std::string head_text(unsigned status, const Headers& headers);

}  // namespace shardfs::teststore
