#include "teststore/delivery.h"

#include <algorithm>

#include "teststore/objects.h"

namespace shardfs::teststore {
namespace {

constexpr uint64_t kDefaultExtraBytes = 64;
constexpr uint64_t kDefaultShiftBytes = 4096;

void drop_header(Request& request, std::string_view name) {
  Reply names;
  names.headers.swap(request.headers);
  names.remove(name);
  names.headers.swap(request.headers);
}

// Moves the part by `by` within the object, keeping its length where the object allows.
void shift_range(Reply& reply, uint64_t by) {
  if (!reply.object || reply.status != 206) return;
  const uint64_t size = reply.object->size_bytes;
  const uint64_t length = reply.end - reply.begin;
  reply.begin = std::min(reply.begin + by, size - 1);
  reply.end = std::min(reply.begin + length, size);
  reply.set("Content-Range", content_range(reply.begin, reply.end, size));
}

void cut_short(Reply& reply, uint64_t bytes) {
  if (reply.object) {
    reply.end = std::min(reply.end, reply.begin + bytes);
  } else {
    reply.text.resize(std::min<uint64_t>(reply.text.size(), bytes));
  }
}

}  // namespace

std::chrono::milliseconds delay_of(const std::vector<Fault>& faults) {
  std::chrono::milliseconds total{0};
  for (const Fault& fault : faults) {
    if (fault.action == Action::kDelay && fault.at_byte <= 0) total += fault.delay;
  }
  return total;
}

std::optional<Reply> answer_of(const Fault& fault) {
  if (fault.action == Action::kStatus) {
    Reply reply = error_reply(fault.status, fault.code, "Asked for by a fault.");
    if (fault.retry_after_s >= 0) reply.set("Retry-After", std::to_string(fault.retry_after_s));
    return reply;
  }
  if (fault.action == Action::kHtml) {
    Reply reply;
    reply.set("Content-Type", "text/html");
    reply.text = "<!DOCTYPE html><html><head><title>Welcome</title></head><body>Please log in.</body></html>\n";
    return reply;
  }
  return std::nullopt;
}

void change_before_answer(const Fault& fault, Request& request, S3Rules& rules) {
  switch (fault.action) {
    case Action::kFull200: drop_header(request, "range"); break;
    case Action::kEtag: drop_header(request, "if-match"); break;
    case Action::kV1: rules.ignore_v2 = true; break;
    case Action::kPlainKeys: rules.ignore_encoding = true; break;
    case Action::kRepeatPage: rules.repeat_page = true; break;
    case Action::kUnordered: rules.reverse = true; break;
    default: break;
  }
}

void change_after_answer(const Fault& fault, Reply& reply, Delivery& delivery) {
  const auto at_byte = static_cast<uint64_t>(std::max<int64_t>(fault.at_byte, 0));
  switch (fault.action) {
    case Action::kDelay:
      if (fault.at_byte > 0) {
        delivery.pause_at_byte = at_byte;
        delivery.pause = fault.delay;
      }
      break;
    case Action::kReset:
    case Action::kClose:
    case Action::kStall:
      delivery.ending = fault.action == Action::kReset   ? Delivery::Ending::kReset
                        : fault.action == Action::kClose ? Delivery::Ending::kClose
                                                         : Delivery::Ending::kStall;
      delivery.without_head = fault.at_byte < 0;
      delivery.cut_at_bytes = at_byte;
      break;
    case Action::kBlackHole:
      delivery.ending = Delivery::Ending::kStall;
      delivery.without_head = true;
      break;
    case Action::kShort: cut_short(reply, at_byte); break;
    case Action::kLong: delivery.extra_zero_bytes = at_byte > 0 ? at_byte : kDefaultExtraBytes; break;
    case Action::kWrongRange: shift_range(reply, at_byte > 0 ? at_byte : kDefaultShiftBytes); break;
    case Action::kPartial200:
      if (reply.status == 206) reply.status = 200;
      break;
    case Action::kNoRange: reply.remove("Content-Range"); break;
    case Action::kBadLength: reply.content_length = "many"; break;
    case Action::kFlip: delivery.flip_at_byte = at_byte; break;
    case Action::kEtag:
      if (reply.status < 300) reply.set("ETag", "\"c0ffeec0ffeec0ffeec0ffeec0ffee00\"");
      break;
    case Action::kSlow: delivery.bytes_per_s = std::max<uint64_t>(fault.bytes_per_s, 1); break;
    case Action::kLowerNames: delivery.lower_names = true; break;
    case Action::kStatus:
    case Action::kHtml:
    case Action::kFull200:
    case Action::kV1:
    case Action::kPlainKeys:
    case Action::kRepeatPage:
    case Action::kUnordered:
    case Action::kHeaders: break;
  }
  for (const auto& [name, value] : fault.headers) reply.set(name, value);
}

}  // namespace shardfs::teststore
