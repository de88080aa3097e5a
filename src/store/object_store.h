// ObjectStore: what shardfs needs of a store, asynchronous, with nothing of HTTP or S3 in it.
// Callbacks run on the store's own threads: they must be short, must not block and must not throw. Exactly one `done`
// follows every request, also after cancel (then kCancelled, unless it had already ended) and when the store is
// destroyed. No callback runs inside the call that started the request.
// Thread rule: thread-safe. The store outlives its requests' handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_range.h"
#include "base/clock.h"
#include "base/error.h"
#include "store/object.h"

namespace shardfs::store {

/// Smaller is more urgent.
enum class Priority : uint8_t { kDemand = 0, kReadahead = 1, kWarm = 2 };

/// Takes the bytes of one GET, in order. Calls come one at a time, not always on one thread.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// Once, before the first byte: what the store says of the object, already checked against what was asked for.
  virtual void on_start(const ObjectInfo& info) = 0;
  /// offset_bytes: of the first byte within the object. A retry never repeats or skips a byte. False: stop (the request
  /// ends with kCancelled).
  virtual bool on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) = 0;
};

/// A started request. Dropping the handle does not cancel it.
class Request {
 public:
  virtual ~Request() = default;
  /// The transfer stops within 10 ms; done follows with kCancelled if it had not ended. Any thread; may be repeated.
  virtual void cancel() = 0;
  /// Makes it more urgent if it still waits for a connection.
  virtual void raise_to(Priority priority) = 0;
};
using RequestHandle = std::shared_ptr<Request>;

struct GetOptions {
  ObjectKey key;
  base::ByteRange range;             // not empty
  std::optional<ObjectInfo> expect;  // the version it must be; any other ends with kChanged
  Priority priority = Priority::kDemand;
  std::chrono::milliseconds deadline{300000};  // for all tries together
};

struct HeadOptions {
  ObjectKey key;
  Priority priority = Priority::kDemand;
  std::chrono::milliseconds deadline{300000};
};

struct ListOptions {
  std::string prefix;        // full prefix within the bucket
  std::string delimiter;     // "/" or empty
  std::string start_after;   // first page only; empty: from the beginning
  std::string continuation;  // token of the page before; empty: first page
  uint32_t max_keys = 1000;
  Priority priority = Priority::kDemand;
  std::chrono::milliseconds deadline{300000};
};

struct ListPage {
  std::vector<ObjectInfo> objects;    // keys in full, in the store's order
  std::vector<std::string> prefixes;  // common prefixes in full, with the delimiter
  bool truncated = false;
  std::string continuation;  // for the next page, when truncated
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  /// Errors: kNotFound, kPermission, kTransient, kTimeout, kCancelled, kInvalid, kIntegrity.
  virtual RequestHandle head(HeadOptions options, std::function<void(base::Result<ObjectInfo>)> done) = 0;
  virtual RequestHandle list(ListOptions options, std::function<void(base::Result<ListPage>)> done) = 0;
  /// done without an error means: every byte of the range was handed to the sink, in order, from the expected version.
  /// Errors: as head, and kChanged.
  virtual RequestHandle get(GetOptions options, std::shared_ptr<BodySink> sink,
                            std::function<void(base::Result<void>)> done) = 0;
  /// How many requests are worth having under way at once, by now; more only wait for each other.
  virtual unsigned connection_limit() const { return std::numeric_limits<unsigned>::max(); }
  /// Endpoint and bucket of every ObjectId from this store.
  virtual std::string endpoint() const = 0;
  virtual std::string bucket() const = 0;
};

}  // namespace shardfs::store
