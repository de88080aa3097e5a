#include "teststore/connection.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "teststore/control.h"
#include "teststore/generate.h"
#include "teststore/http.h"

namespace shardfs::teststore {
namespace {

using std::chrono::steady_clock;

// Source: fits in the second-level cache, so a generated piece is copied to the socket from there.
constexpr uint64_t kPieceBytes = 256 << 10;
// Lateness of the machine that may be made up for with a limited bandwidth.
constexpr std::chrono::milliseconds kCatchUp{100};
// Bodies up to this go out in one write with their head.
constexpr uint64_t kJoinedBytes = 16 << 10;

bool has_body(unsigned status) { return status != 204 && status != 304; }

}  // namespace

Connection::~Connection() {
  if (counted_) core_.counters.connection_closed();
}

void Connection::run() {
  RequestReader reader(channel_);
  while (true) {
    Request request;
    bool keep_alive = true;
    const auto outcome = reader.read(request, keep_alive);
    if (outcome == RequestReader::Outcome::kEnd) return;
    if (outcome == RequestReader::Outcome::kMalformed) {
      Reply reply = error_reply(400, "BadRequest", "This is not an HTTP/1.1 request.");
      deliver(request, reply, {}, nullptr, false);
      return;
    }
    const bool control = request.raw_path.starts_with(kControlPrefix);
    if (!(control ? serve_control(request, keep_alive) : serve(request, keep_alive))) return;
  }
}

bool Connection::serve_control(Request& request, bool keep_alive) {
  Reply reply = answer_control(request, core_);
  return deliver(request, reply, {}, nullptr, keep_alive);
}

bool Connection::serve(Request& request, bool keep_alive) {
  const Time received = steady_clock::now();
  if (!counted_) core_.counters.connection_opened();
  counted_ = true;
  address_request(request);
  const AskedRange asked = asked_range(request, core_.objects);
  Counters::Running running(core_.counters, request, asked);

  Delivery delivery;
  if (auto hold = core_.holds.find(request, asked)) {
    if (hold->at_byte < 0) {
      if (!wait_at(*hold)) return false;
    } else {
      delivery.pause_at_byte = static_cast<uint64_t>(hold->at_byte);
      delivery.hold = std::move(hold);
    }
  }

  const Shape shape = core_.shape.get();
  const bool object = request.kind == Kind::kGet || request.kind == Kind::kHead;
  const Time first_byte = received + (object                        ? shape.first_byte_delay
                                      : request.kind == Kind::kList ? shape.list_delay
                                                                    : std::chrono::milliseconds(0));
  auto refusal =
      check_signature(request, core_.credentials.get(), {core_.options.require_signature, core_.options.region},
                      std::chrono::system_clock::now());
  if (refusal) {
    return wait_until(first_byte) && deliver(request, *refusal, {}, &running, keep_alive);
  }

  const std::vector<Fault> faults = core_.faults.take(request, asked, running.concurrent());
  if (std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return fault.concurrent_above > 0; })) {
    running.finish();
  }
  if (!wait_until(first_byte + delay_of(faults))) return false;
  S3Rules rules{core_.options.region, core_.options.max_keys};
  std::optional<Reply> reply;
  for (const Fault& fault : faults) {
    change_before_answer(fault, request, rules);
    if (!reply) reply = answer_of(fault);
  }
  if (!reply) reply = answer(request, core_.objects, rules);
  for (const Fault& fault : faults) change_after_answer(fault, *reply, delivery);
  delivery.bytes_per_s = delivery.bytes_per_s > 0 ? delivery.bytes_per_s : shape.connection_bytes_per_s;
  return deliver(request, *reply, delivery, &running, keep_alive);
}

bool Connection::wait_until(Time until) {
  if (until <= steady_clock::now()) return true;
  return pause(channel_.fd(), {core_.stop.fd()}, until) == Woken::kDue;
}

bool Connection::wait_at(const Holds::Held& hold) {
  core_.holds.enter(hold.id);
  const Woken woken = pause(channel_.fd(), {core_.stop.fd(), hold.gate->fd()}, std::nullopt);
  core_.holds.leave(hold.id);
  return woken == Woken::kGate && pause(channel_.fd(), {core_.stop.fd()}, steady_clock::now()) == Woken::kDue;
}

bool Connection::end_early(Delivery::Ending ending) {
  if (ending == Delivery::Ending::kStall) pause(channel_.fd(), {core_.stop.fd()}, std::nullopt);
  if (ending == Delivery::Ending::kReset) {
    channel_.drain();
    channel_.reset_on_close();
  }
  return false;
}

bool Connection::deliver(const Request& request, Reply& reply, const Delivery& delivery, Counters::Running* running,
                         bool keep_alive) {
  if (delivery.without_head) return end_early(delivery.ending);
  const bool with_body = request.method != "HEAD" && has_body(reply.status);
  const uint64_t length = reply.body_bytes() + delivery.extra_zero_bytes;
  if (!reply.has("Date")) reply.set("Date", http_date(std::chrono::system_clock::now()));
  reply.set("Server", "teststore");
  reply.set("x-amz-request-id", "teststore");
  if (has_body(reply.status)) reply.set("Content-Length", reply.content_length.value_or(std::to_string(length)));
  if (!keep_alive) reply.set("Connection", "close");
  if (delivery.lower_names) {
    for (auto& [name, value] : reply.headers) name = lower(name);
  }
  std::string head = head_text(reply.status, reply.headers);
  if (running != nullptr) running->answered(reply.status);

  const bool plain = delivery.ending == Delivery::Ending::kKeepAlive && !delivery.pause_at_byte &&
                     delivery.bytes_per_s == 0 && delivery.extra_zero_bytes == 0 && !delivery.flip_at_byte;
  if (with_body && !reply.object && plain && length <= kJoinedBytes) {
    head += reply.text;
    if (running != nullptr) running->finish();
    return channel_.write(head, false) && keep_alive;
  }
  const bool body_follows = with_body && length > 0;
  if (!body_follows && delivery.ending == Delivery::Ending::kKeepAlive && running != nullptr) running->finish();
  if (!channel_.write(head, body_follows && plain)) return false;
  if (body_follows && !send_body(reply, delivery, running)) return false;
  if (delivery.ending != Delivery::Ending::kKeepAlive) return end_early(delivery.ending);
  return keep_alive;
}

bool Connection::send_body(const Reply& reply, const Delivery& delivery, Counters::Running* running) {
  base::UniqueFd file;
  if (reply.object && reply.object->source == Object::Source::kFile) {
    file.reset(::open(reply.object->path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return false;
  }
  const uint64_t length = reply.body_bytes();
  const uint64_t end = std::min(length, delivery.cut_at_bytes.value_or(length));
  uint64_t at = 0;
  if (delivery.pause_at_byte) {
    at = std::min(*delivery.pause_at_byte, end);
    if (!send_pieces(reply, delivery, 0, at, file.get(), running)) return false;
    if (delivery.hold ? !wait_at(*delivery.hold) : !wait_until(steady_clock::now() + delivery.pause)) return false;
  }
  if (!send_pieces(reply, delivery, at, end, file.get(), running)) return false;
  return delivery.extra_zero_bytes == 0 || channel_.write(std::string(delivery.extra_zero_bytes, '\0'), false);
}

bool Connection::send_pieces(const Reply& reply, const Delivery& delivery, uint64_t begin, uint64_t end, int file,
                             Counters::Running* running) {
  const bool counted = reply.object != nullptr && running != nullptr;
  const bool limited = delivery.bytes_per_s > 0;
  const uint64_t piece_bytes = limited ? std::clamp<uint64_t>(delivery.bytes_per_s / 16, 1, kPieceBytes) : kPieceBytes;
  due_ = std::max(due_, steady_clock::now());  // an idle connection gains no bandwidth
  while (begin < end) {
    const uint64_t size = std::min(piece_bytes, end - begin);
    if (limited) {  // a piece goes out when its last byte would have come through
      due_ = std::max(due_, steady_clock::now() - kCatchUp) +
             std::chrono::nanoseconds(size * 1000000000 / delivery.bytes_per_s);
      if (!wait_until(due_)) return false;
    }
    if (counted) running->body(size);
    const bool last = begin + size == reply.body_bytes() && delivery.extra_zero_bytes == 0;
    if (last && delivery.ending == Delivery::Ending::kKeepAlive && running != nullptr) running->finish();
    if (!send_piece(reply, delivery.flip_at_byte, begin, begin + size, file)) return false;
    begin += size;
  }
  return true;
}

// [begin, end) counts from the body's first byte.
bool Connection::send_piece(const Reply& reply, std::optional<uint64_t> flip, uint64_t begin, uint64_t end, int file) {
  const uint64_t size = end - begin;
  const bool flipped = flip && *flip >= begin && *flip < end;
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (!reply.object || reply.object->source == Object::Source::kBytes) {
    const std::string& bytes = reply.object ? reply.object->bytes : reply.text;
    const std::string_view piece = std::string_view(bytes).substr(begin + (reply.object ? reply.begin : 0), size);
    if (!flipped) return channel_.write(piece, false);
    buffer_.resize(size);
    std::memcpy(buffer_.data(), piece.data(), size);
  } else if (reply.object->source == Object::Source::kGenerated) {
    buffer_.resize(size);
    teststore::generate(reply.object->seed, reply.begin + begin, buffer_);
  } else {
    if (!flipped) return channel_.send_file(file, reply.begin + begin, size);
    buffer_.resize(size);
    if (::pread(file, buffer_.data(), size, static_cast<off_t>(reply.begin + begin)) != static_cast<ssize_t>(size)) {
      return false;
    }
  }
  if (flipped) buffer_[*flip - begin] ^= std::byte{1};
  return channel_.write(text(buffer_), false);
}

}  // namespace shardfs::teststore
