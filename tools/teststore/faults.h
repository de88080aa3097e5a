// Faults: what the server does wrong on demand. Not for the control plane under /_teststore/, which has no faults.
//
// A request goes through these steps: received and counted; held (holds); signature; first-byte or list delay; faults;
// S3's answer; the head is sent; the body is sent. Faults are asked in the order in which they were added: each
// matching kDelay applies, and the first matching fault of another action. Byte N counts the body bytes of one reply.
//   delay        delay_ms before the head; with at_byte N > 0, after N body bytes instead
//   reset        the head and exactly at_byte body bytes arrive, then RST; at_byte -1: RST in place of any answer
//   close        the same with FIN: the body is shorter than its Content-Length
//   stall        the head and at_byte body bytes are sent, then nothing; the connection stays open until the peer
//   closes short        a well-formed reply with only at_byte body bytes: Content-Length says so, Content-Range does
//   not long         a well-formed reply with at_byte (0: 64) more zero bytes than asked for; Content-Range as asked
//   wrong_range  bytes and Content-Range are those at_byte (0: 4096) further on, clipped to the object; else as asked
//   full_200     Range is ignored: 200 with the whole object
//   partial_200  the right part with its Content-Range, labelled 200
//   no_range     206 with the right part, without Content-Range
//   bad_length   Content-Length is not a number
//   flip         one bit of body byte at_byte is wrong; lengths and headers are right
//   status       `status` with the S3 error `code` and the extra headers, Retry-After with retry_after_s >= 0
//   etag         the reply says another ETag than the object has, always the same one; If-Match is not looked at
//   html         200 with a page of HTML in the place of the object or listing
//   black_hole   no answer at all; the connection stays open until the peer closes
//   slow         the body flows at bytes_per_s
//   v1, plain_keys, repeat_page, unordered   listings: list-type=2 is ignored; encoding-type is ignored; the next
//   page's
//                token leads to the same page again; the entries of a page come in falling order
//   lower_names  all header names in lower case
//   headers      nothing but the extra headers, which are added to (or replace those of) the reply
// Extra headers go with every action (another Date: the store's clock is off). Whatever ends a connection early ends only that one.
//
// With concurrent_above N a fault meets only requests that come while N others or more are being answered; such a
// request counts as one under way no longer. So a store that takes N at once: status, concurrent_above N, times -1.
// A fault skips its first `skip` matching requests, fires with `probability` (drawn from `seed`, reproducible for the
// same order of requests) and at most `times` times.
// Thread rule: Faults and Holds are thread-safe; the rest are plain values.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "teststore/message.h"

namespace shardfs::teststore {

/// Which requests are meant; what is empty matches all.
struct Match {
  std::string method;
  std::optional<Kind> kind;
  std::string bucket;
  std::string key;  // whole key, or a listing's prefix: "*" any run of bytes, "?" one byte, "\" before one: that byte
  uint64_t range_begin_at_least = 0;  // of the asked range; when set, only GETs of objects match
  std::string access_key;
  std::string header;  // a request header that must be there

  bool fits(const Request& request, const AskedRange& asked) const;
};

bool glob_matches(std::string_view pattern, std::string_view text);

enum class Action {
  kDelay,
  kReset,
  kClose,
  kStall,
  kShort,
  kLong,
  kWrongRange,
  kFull200,
  kPartial200,
  kNoRange,
  kBadLength,
  kFlip,
  kStatus,
  kEtag,
  kHtml,
  kBlackHole,
  kSlow,
  kV1,
  kPlainKeys,
  kRepeatPage,
  kUnordered,
  kLowerNames,
  kHeaders,
};
std::string_view name_of(Action action);
std::optional<Action> action_named(std::string_view name);

struct Fault {
  Match match;
  Action action = Action::kStatus;
  int64_t at_byte = 0;
  unsigned status = 503;
  std::string code = "SlowDown";
  int retry_after_s = -1;
  std::chrono::milliseconds delay{0};
  uint64_t bytes_per_s = 1 << 20;
  Headers headers;
  int64_t times = 1;  // -1: for ever
  uint64_t skip = 0;
  uint64_t concurrent_above = 0;
  double probability = 1;
  uint64_t seed = 0;
};

class Faults {
 public:
  uint64_t add(Fault fault);  // an id for fired()
  void clear();
  /// Those that this request meets, counted as fired.
  /// concurrent: under way when it came, with this one.
  std::vector<Fault> take(const Request& request, const AskedRange& asked, uint64_t concurrent = 1);
  /// How often that fault has fired; kept after clear().
  uint64_t fired(uint64_t id) const;
  std::map<uint64_t, uint64_t> fired() const;

 private:
  struct Entry {
    uint64_t id = 0;
    Fault fault;
    uint64_t matched = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<uint64_t, uint64_t> fired_;
  uint64_t next_id_ = 1;
};

/// A gate that opens once: fd() becomes readable then and stays so.
class Gate {
 public:
  Gate();
  void open();
  int fd() const { return fd_.get(); }

 private:
  base::UniqueFd fd_;
};

/// Keeps matching requests unanswered until they are released.
class Holds {
 public:
  struct Held {
    std::shared_ptr<Gate> gate;
    int64_t at_byte = -1;
    uint64_t id = 0;
  };

  /// at_byte -1: before the head; N: after the head and N body bytes. Later requests are held too, until released.
  uint64_t add(Match match, int64_t at_byte);
  /// Answers what is held and holds no more; id 0: all holds.
  void release(uint64_t id);
  std::optional<Held> find(const Request& request, const AskedRange& asked) const;

  void enter(uint64_t id);  // a request begins to wait
  void leave(uint64_t id);
  size_t waiting() const;
  /// Blocks until exactly so many wait; false after `patience`.
  bool await_waiting(size_t count, std::chrono::milliseconds patience) const;

 private:
  struct Entry {
    Match match;
    Held held;
    size_t waiting = 0;
  };
  size_t waiting_locked() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<uint64_t, Entry> entries_;
  uint64_t next_id_ = 1;
};

}  // namespace shardfs::teststore
