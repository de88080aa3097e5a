#include "app/check_store.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>

#include "base/units.h"
#include "s3/reach.h"

namespace shardfs::app {
namespace {

using base::ByteRange;
using base::Code;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = CheckRow::Verdict;

// Source: somebody waits at a prompt; a store that needs longer for one answer is not to be used.
constexpr seconds kAnswerLimit{20};
// Source: long enough for a connection to leave slow start, and for a figure within some percent.
constexpr seconds kMeasureFor{3};
constexpr uint64_t kPartBytes = 8 << 20;  // as design section 3
constexpr uint64_t kSampleBytes = 1 << 20;
constexpr seconds kClockFine{60};
constexpr seconds kClockRefused{900};  // Source: S3 refuses signatures that are more than 15 minutes off.

class Sink final : public store::BodySink {
 public:
  explicit Sink(bool keeps) : keeps_(keeps) {}
  void on_start(const store::ObjectInfo&) override { started_ = std::chrono::steady_clock::now(); }
  bool on_bytes(uint64_t, std::span<const std::byte> bytes) override {
    if (keeps_) text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    count_.fetch_add(bytes.size(), std::memory_order_relaxed);
    return true;
  }
  std::string& text() { return text_; }
  uint64_t count() const { return count_; }
  base::SteadyTime started() const { return started_; }

 private:
  const bool keeps_;
  std::string text_;
  std::atomic<uint64_t> count_{0};
  base::SteadyTime started_{};
};

/// N requests at once over the parts, again and again, until the time is over.
class Flow {
 public:
  Flow(store::ObjectStore& store, const std::vector<std::pair<store::ObjectInfo, ByteRange>>& parts)
      : store_(store), parts_(parts), sink_(std::make_shared<Sink>(false)) {}

  void run(unsigned at_once) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kMeasureFor;
    while (std::chrono::steady_clock::now() < deadline && !failure_) {
      while (running_ < at_once) {
        ++running_;
        const auto& [object, range] = parts_[next_++ % parts_.size()];
        lock.unlock();
        auto handle = start(object, range);
        lock.lock();
        handles_.push_back(std::move(handle));
      }
      ended_.wait_until(lock, deadline);
    }
    bytes_ = sink_->count();
    over_ = true;
    const auto handles = std::move(handles_);
    lock.unlock();
    for (const auto& handle : handles) handle->cancel();
    lock.lock();
    ended_.wait(lock, [&] { return running_ == 0; });
  }
  uint64_t bytes() const { return bytes_; }
  const std::optional<base::Error>& failure() const { return failure_; }

 private:
  store::RequestHandle start(const store::ObjectInfo& object, ByteRange range) {
    store::GetOptions options;
    options.key = object.key;
    options.range = range;
    options.expect = object;
    options.deadline = kAnswerLimit;
    return store_.get(std::move(options), sink_, [this](Result<void> done) {
      const std::lock_guard lock(mutex_);
      --running_;
      if (!done && !over_) failure_ = std::move(done.error());
      ended_.notify_all();
    });
  }

  store::ObjectStore& store_;
  const std::vector<std::pair<store::ObjectInfo, ByteRange>>& parts_;
  const std::shared_ptr<Sink> sink_;
  std::mutex mutex_;  // guards all below
  std::condition_variable ended_;
  std::vector<store::RequestHandle> handles_;
  size_t next_ = 0;
  unsigned running_ = 0;
  bool over_ = false;
  uint64_t bytes_ = 0;
  std::optional<base::Error> failure_;
};

std::string ms(std::chrono::microseconds time) {
  return fmt::format("{:.1f} ms", static_cast<double>(time.count()) / 1e3);
}

std::string advice_for(const base::Error& error) {
  switch (error.code) {
    case Code::kPermission:
      return "the keys may not do this here: check their policy, or name others (docs/credentials.md)";
    case Code::kNotFound: return "check the bucket's name and --endpoint-url";
    case Code::kTimeout:
    case Code::kTransient: return "the store is busy or the network loses packets: try again, check the path to it";
    case Code::kInvalid: return "check --endpoint-url, --region and --path-style";
    default: return {};
  }
}

}  // namespace

void CheckStore::skip(std::initializer_list<const char*> names, const std::string& why) {
  for (const char* name : names) report_({Verdict::kSkipped, name, why, {}});
}

bool CheckStore::run() {
  if (!reach()) {
    skip({"credentials", "list", "read", "ranged read", "If-Match", "throughput"}, "the store does not answer");
    return false;
  }
  if (!find_keys()) {
    skip({"list", "read", "ranged read", "If-Match", "throughput"}, "there are no keys");
    return false;
  }
  if (!list()) {
    skip({"read", "ranged read", "If-Match", "throughput"}, "nothing can be listed");
    return false;
  }
  read();
  return true;
}

bool CheckStore::reach() {
  using Step = s3::Reach::Step;
  const auto place = s3::reach_endpoint(options_);
  if (!place) {
    report_({Verdict::kFailed, "endpoint", place.error().message, "check --endpoint-url, --region and --ca-bundle"});
    skip({"dns", "tls", "clock", "region"}, "there is no endpoint");
    return false;
  }
  const std::string shown =
      fmt::format("{}, bucket in the {}", place->endpoint, place->path_style ? "path" : "host name");
  const bool reached = place->came_to >= Step::kTls;
  if (place->came_to == Step::kDone) {
    report_({Verdict::kOk,
             "endpoint",
             fmt::format("{}: connected in {}, answer after {}", shown, ms(place->connect), ms(place->answer)),
             {}});
  } else if (place->came_to == Step::kLookup) {
    report_({Verdict::kSkipped, "endpoint", shown + ": its name leads nowhere", {}});
  } else if (place->came_to == Step::kTls) {
    report_({Verdict::kWarning, "endpoint", fmt::format("{}: connected in {}", shown, ms(place->connect)), {}});
  } else {
    report_({Verdict::kFailed, "endpoint", fmt::format("{}: {}", shown, place->failure),
             reached ? "something else may listen there: check the port, and http or https"
                     : "check address and port, firewall and proxy (HTTPS_PROXY, NO_PROXY)"});
  }
  if (place->came_to == Step::kLookup) {
    report_({Verdict::kFailed, "dns", place->failure,
             place->path_style ? "check the name in --endpoint-url, and /etc/resolv.conf"
                               : "check --endpoint-url; if its names hold no buckets, use --path-style"});
  } else {
    report_({Verdict::kOk,
             "dns",
             fmt::format("{} in {}", place->address.empty() ? "found" : place->address, ms(place->lookup)),
             {}});
  }
  if (!place->tls) {
    report_({Verdict::kOk, "tls", "none: plain http", {}});
  } else if (place->came_to == Step::kDone || place->came_to == Step::kAnswer) {
    report_({Verdict::kOk,
             "tls",
             fmt::format("trusted, certificate until {}, handshake {}", place->certificate_expires,
                         ms(place->tls_handshake)),
             {}});
  } else if (place->came_to == Step::kTls) {
    report_({Verdict::kFailed, "tls", place->failure,
             "give the store's authority with --ca-bundle or AWS_CA_BUNDLE; check that it speaks https"});
  } else {
    report_({Verdict::kSkipped, "tls", "no connection", {}});
  }
  if (place->came_to != Step::kDone) {
    skip({"clock", "region"}, "no answer");
    return false;
  }
  if (!place->clock_ahead) {
    report_({Verdict::kWarning, "clock", "the store does not say what time it is", {}});
  } else {
    const auto off = std::chrono::abs(*place->clock_ahead);
    report_({off > kClockFine ? Verdict::kWarning : Verdict::kOk, "clock",
             fmt::format("{} s {} the store's", off.count(), place->clock_ahead->count() < 0 ? "behind" : "ahead of"),
             off > kClockRefused ? "requests are signed with the store's time; set this machine's clock (chrony)"
             : off > kClockFine  ? "set this machine's clock (chrony)"
                                 : ""});
  }
  const bool other = !place->bucket_region.empty() && place->bucket_region != place->region;
  if (other && place->region_given) {
    report_({Verdict::kFailed, "region",
             fmt::format("the bucket is in {}, not in {}", place->bucket_region, place->region),
             "--region " + place->bucket_region});
  } else if (other) {
    report_({Verdict::kWarning, "region",
             fmt::format("the bucket is in {}; none was named, so that is used", place->bucket_region),
             "--region " + place->bucket_region + " saves a request"});
  } else {
    report_({Verdict::kOk,
             "region",
             place->region + (place->bucket_region.empty() ? " (the store does not say)" : ""),
             {}});
  }
  return true;
}

bool CheckStore::find_keys() {
  const auto keys = s3::find_keys(options_);
  if (!keys) {
    report_({Verdict::kFailed, "credentials", keys.error().message,
             "give keys (docs/credentials.md), or use --no-sign-request for a public bucket"});
    return false;
  }
  if (keys->source.empty()) {
    report_({Verdict::kOk, "credentials", "none: --no-sign-request", {}});
    return true;
  }
  if (!keys->expires) {
    report_({Verdict::kOk, "credentials", fmt::format("{}; no end known", keys->source), {}});
    return true;
  }
  const auto left = std::chrono::duration_cast<std::chrono::minutes>(*keys->expires - clock_.wall_now());
  report_({left.count() < 0 ? Verdict::kFailed : Verdict::kOk, "credentials",
           fmt::format("{}; until {:%Y-%m-%d %H:%M:%S} UTC, {} minutes left", keys->source,
                       fmt::gmtime(std::chrono::system_clock::to_time_t(*keys->expires)), left.count()),
           left.count() < 0 ? "they have ended: renew them where they come from" : ""});
  return true;
}

bool CheckStore::list() {
  auto store = s3::make_s3_store(options_, clock_, metrics_);
  if (!store) {
    report_({Verdict::kFailed, "list", store.error().message, advice_for(store.error())});
    return false;
  }
  store_ = std::move(*store);
  store::ListOptions options;
  options.prefix = source_.prefix;
  options.deadline = kAnswerLimit;
  const auto before = clock_.now();
  std::promise<Result<store::ListPage>> answer;
  store_->list(options, [&](Result<store::ListPage> page) { answer.set_value(std::move(page)); });
  auto page = answer.get_future().get();
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(clock_.now() - before);
  if (!page) {
    report_({Verdict::kFailed, "list", page.error().message, advice_for(page.error())});
    return false;
  }
  for (auto& object : page->objects) {
    if (object.size_bytes > 0 && !object.archived) objects_.push_back(std::move(object));
  }
  const std::string found =
      fmt::format("{} objects{} in {}", page->objects.size(), page->truncated ? " and more" : "", ms(took));
  if (page->objects.empty()) {
    report_({Verdict::kWarning, "list", "no object below " + source_.text(), "check the prefix"});
  } else if (objects_.empty()) {
    report_({Verdict::kWarning, "list", found + "; none that can be read: they are empty or archived", {}});
  } else {
    report_({Verdict::kOk, "list", found, {}});
  }
  return true;
}

Result<std::string> CheckStore::get(store::ObjectStore& store, const store::ObjectInfo& object, ByteRange range,
                                    milliseconds* first_byte) {
  store::GetOptions options;
  options.key = object.key;
  options.range = range;
  options.expect = object;
  options.deadline = kAnswerLimit;
  const auto sink = std::make_shared<Sink>(true);
  const auto before = clock_.now();
  std::promise<Result<void>> answer;
  store.get(std::move(options), sink, [&](Result<void> done) { answer.set_value(std::move(done)); });
  const auto done = answer.get_future().get();
  if (first_byte != nullptr) *first_byte = std::chrono::duration_cast<milliseconds>(sink->started() - before);
  if (!done) return tl::unexpected(done.error());
  return std::move(sink->text());
}

void CheckStore::read() {
  if (objects_.empty()) return skip({"read", "ranged read", "If-Match", "throughput"}, "there is nothing to read");
  std::sort(objects_.begin(), objects_.end(), [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
  const store::ObjectInfo& object = objects_.front();
  milliseconds first_byte{0};
  const auto bytes = get(*store_, object, {0, std::min(object.size_bytes, kSampleBytes)}, &first_byte);
  if (!bytes) {
    report_({Verdict::kFailed, "read", bytes.error().message, advice_for(bytes.error())});
    return skip({"ranged read", "If-Match", "throughput"}, "nothing can be read");
  }
  report_(
      {Verdict::kOk,
       "read",
       fmt::format("{}: {}, first byte after {} ms", object.key, base::format_bytes(bytes->size()), first_byte.count()),
       {}});
  read_range(object, *bytes);
  try_if_match(object);
  for (const unsigned connections : {1u, 8u, 32u}) measure(connections);
}

void CheckStore::read_range(const store::ObjectInfo& object, const std::string& first) {
  if (first.size() < 3) return skip({"ranged read"}, "the object is too small");
  const ByteRange range{first.size() / 3, first.size() / 3 * 2};
  const auto part = get(*store_, object, range);
  if (!part) {
    report_({Verdict::kFailed, "ranged read", part.error().message,
             "this store or a proxy in front of it gives no ranges: it can't be mounted"});
  } else if (*part != first.substr(range.begin, range.size())) {
    report_({Verdict::kFailed, "ranged read", "the part holds other bytes than the object", "do not use this store"});
  } else {
    report_(
        {Verdict::kOk, "ranged read", fmt::format("bytes {}-{}, the same as before", range.begin, range.end - 1), {}});
  }
}

void CheckStore::try_if_match(const store::ObjectInfo& object) {
  if (object.etag.empty()) {
    report_({Verdict::kWarning, "If-Match", "the store sends no ETags; versions are told by size and time", {}});
    return;
  }
  base::Metrics metrics;
  auto store = s3::make_s3_store(options_, clock_, metrics);  // has learned nothing of If-Match yet
  if (!store) return report_({Verdict::kFailed, "If-Match", store.error().message, {}});
  const auto count = [&](const store::ObjectInfo& expected) {
    const auto& tries = metrics.counter("store_requests", "get");
    const uint64_t before = tries.value();
    const auto done = get(**store, expected, {0, 1});
    return std::pair(tries.value() - before, done ? Code{} : done.error().code);
  };
  // A second try means that the first was refused because of the header.
  const bool right_refused = count(object).first > 1;
  store::ObjectInfo other = object;
  other.etag = "\"0123456789abcdef0123456789abcdef\"";
  const auto [wrong_tries, code] = count(other);
  if (code != Code::kChanged) {
    report_(
        {Verdict::kFailed, "If-Match", "a replaced object is not told from the one before", "do not use this store"});
  } else if (right_refused) {
    report_({Verdict::kWarning, "If-Match", "refused for an unchanged object; ETags are compared here", {}});
  } else if (wrong_tries > 1) {
    report_({Verdict::kOk, "If-Match", "understood", {}});
  } else {
    report_({Verdict::kOk, "If-Match", "ignored; ETags are compared here", {}});
  }
}

void CheckStore::measure(unsigned connections) {
  const std::string name = fmt::format("throughput {}", connections);
  std::vector<std::pair<store::ObjectInfo, ByteRange>> parts;
  for (const auto& object : objects_) {
    for (uint64_t begin = 0; begin < object.size_bytes && parts.size() < 1024; begin += kPartBytes) {
      parts.emplace_back(object, ByteRange{begin, std::min(begin + kPartBytes, object.size_bytes)});
    }
  }
  s3::S3Options options = options_;
  options.connections = connections;
  base::Metrics metrics;
  auto store = s3::make_s3_store(options, clock_, metrics);
  if (!store) return report_({Verdict::kFailed, name, store.error().message, {}});
  const auto before = clock_.now();
  Flow flow(**store, parts);
  flow.run(connections);
  const double took_s = std::chrono::duration<double>(clock_.now() - before).count();
  if (flow.failure()) return report_({Verdict::kFailed, name, flow.failure()->message, advice_for(*flow.failure())});
  report_({Verdict::kOk, name,
           fmt::format("{:.0f} MB/s in parts of {} over {:.1f} s", static_cast<double>(flow.bytes()) / 1e6 / took_s,
                       base::format_bytes(parts.front().second.size()), took_s),
           objects_.front().size_bytes < kPartBytes ? "the objects are small: shards of 64 MiB and more are read faster"
                                                    : ""});
}

}  // namespace shardfs::app
