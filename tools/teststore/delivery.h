// Delivery: how a reply is put on the wire, and what faults change in the request, the rules, the reply and it.
// Thread rule: plain values and pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "teststore/faults.h"
#include "teststore/message.h"
#include "teststore/s3.h"

namespace shardfs::teststore {

struct Delivery {
  enum class Ending { kKeepAlive, kClose, kReset, kStall };
  Ending ending = Ending::kKeepAlive;
  bool without_head = false;             // the ending comes in place of any answer
  std::optional<uint64_t> cut_at_bytes;  // no more of the body than this is sent
  uint64_t extra_zero_bytes = 0;         // after the body
  std::optional<uint64_t> flip_at_byte;
  uint64_t bytes_per_s = 0;  // 0: no limit of its own
  bool lower_names = false;

  // A wait within the body; at_byte 0: between the head and the body.
  std::optional<uint64_t> pause_at_byte;
  std::chrono::milliseconds pause{0};
  std::optional<Holds::Held> hold;  // waits for its gate in place of `pause`
};

/// How long the head has to wait for the faults' sake.
std::chrono::milliseconds delay_of(const std::vector<Fault>& faults);

/// The fault's own answer, if it has one.
std::optional<Reply> answer_of(const Fault& fault);
void change_before_answer(const Fault& fault, Request& request, S3Rules& rules);
void change_after_answer(const Fault& fault, Reply& reply, Delivery& delivery);

}  // namespace shardfs::teststore
