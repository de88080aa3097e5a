#include <fmt/format.h>

#include "base/log.h"
#include "s3/operations.h"

namespace shardfs::s3 {

using base::Code;

GetOperation::GetOperation(Core& core, store::GetOptions options, std::shared_ptr<store::BodySink> sink,
                           std::function<void(base::Result<void>)> done)
    : Operation(core, RequestKind::kGet, std::move(options.key), options.priority, options.deadline),
      range_(options.range),
      sink_(std::move(sink)),
      done_(std::move(done)),
      version_(std::move(options.expect)),
      next_(options.range.begin) {}

base::Result<void> GetOperation::check() const {
  if (key().empty()) return base::fail(Code::kInvalid, "get: the key is empty");
  if (range_.empty()) return base::fail(Code::kInvalid, fmt::format("get {}: the range is empty", printable(key())));
  return {};
}

RequestParts GetOperation::build() {
  RequestParts out;
  out.kind = kind();
  out.key = key();
  out.signed_headers.emplace_back("range", fmt::format("bytes={}-{}", next_, range_.end - 1));
  try_begin_ = next_;
  // A weak ETag never matches.
  sent_if_match_ = version_ && !version_->etag.empty() && !version_->etag.starts_with("W/") && !without_if_match_ &&
                   !core().without_if_match;
  if (sent_if_match_) out.plain_headers.push_back("If-Match: " + version_->etag);
  return out;
}

bool GetOperation::refuse(Code code, Remedy remedy, std::string detail) {
  refuse_ = Verdict{};
  refuse_->code = code;
  refuse_->remedy = remedy;
  refuse_->detail = std::move(detail);
  return false;
}

std::optional<uint64_t> GetOperation::checked_size(const ResponseHead& head) {
  const base::ByteRange wanted{next_, range_.end};
  const auto length = head.content_length();
  const auto contradicts = [&](std::string why) -> std::optional<uint64_t> {
    refuse(Code::kIntegrity, Remedy::kRefetch, std::move(why));
    return std::nullopt;
  };
  if (length && *length != wanted.size() && (head.status() == 206 || head.has("content-range"))) {
    // The object may just be shorter than the caller thought; the range below says so.
    const auto range = parse_content_range(head.header("content-range"));
    if (!range || range->range.size() != *length) {
      return contradicts(fmt::format("{} with Content-Length {} and Content-Range '{}'", head.status(), *length,
                                     printable(head.header("content-range"))));
    }
  }
  if (head.has("content-range")) {
    const auto range = parse_content_range(head.header("content-range"));
    if (!range || range->range.empty()) {
      return contradicts(fmt::format("Content-Range '{}'", printable(head.header("content-range"))));
    }
    auto size = range->size_bytes;
    if (!size && version_) size = version_->size_bytes;
    if (!size || range->range.end > *size) {
      return contradicts(fmt::format("Content-Range '{}'", printable(head.header("content-range"))));
    }
    if (version_ && version_->size_bytes != *size) return size;  // another version; said by check_version
    if (range->range == wanted) return size;
    if (range->range.begin == wanted.begin && range->range.end == *size && *size < wanted.end) {
      refuse(Code::kInvalid, Remedy::kNone, fmt::format("the object has only {} bytes", *size));
      return std::nullopt;
    }
    return contradicts(fmt::format("asked for bytes {}-{}, got Content-Range '{}'", wanted.begin, wanted.end - 1,
                                   printable(head.header("content-range"))));
  }
  if (head.status() == 206) return contradicts("206 without Content-Range");
  // 200: the whole object.
  if (!length && !version_) return contradicts("200 without Content-Length");
  const uint64_t size = length ? *length : version_->size_bytes;
  if (version_ && version_->size_bytes != size) return size;
  if (wanted == base::ByteRange{0, size}) return size;
  return contradicts(fmt::format("asked for bytes {}-{}, got 200 with {} bytes", wanted.begin, wanted.end - 1, size));
}

bool GetOperation::check_version(const store::ObjectInfo& info) {
  if (!version_) return true;
  const auto& want = *version_;
  const auto changed = [&](std::string how) {
    return refuse(Code::kChanged, Remedy::kNone, "the object was replaced: " + std::move(how));
  };
  // A part labelled 200 has the part's length, not the object's: the ETag decides first.
  const bool both_etags = !want.etag.empty() && !info.etag.empty();
  if (both_etags && !store::same_etag(want.etag, info.etag)) {
    return changed(fmt::format("ETag {} instead of {}", printable(info.etag), printable(want.etag)));
  }
  const bool want_time = want.last_modified != base::WallTime{}, has_time = info.last_modified != base::WallTime{};
  // Such as a proxy's page: no evidence that the object is another one.
  if (info.etag.empty() && !has_time && (want_time || !want.etag.empty())) {
    return refuse(Code::kIntegrity, Remedy::kRefetch, "the answer names no version");
  }
  if (want.size_bytes != info.size_bytes) {
    if (both_etags) {
      return refuse(Code::kIntegrity, Remedy::kRefetch,
                    fmt::format("{} bytes instead of {} under the same ETag", info.size_bytes, want.size_bytes));
    }
    return changed(fmt::format("{} bytes instead of {}", info.size_bytes, want.size_bytes));
  }
  if (both_etags) return true;
  if (want_time && has_time) {
    return want.last_modified == info.last_modified || changed("another Last-Modified");
  }
  if (want_time || !want.etag.empty()) {
    return refuse(Code::kIntegrity, Remedy::kRefetch, "the answer names no version");
  }
  return true;
}

bool GetOperation::accept(const ResponseHead& head) {
  if (head.status() != 200 && head.status() != 206) return false;
  const auto size = checked_size(head);
  auto info = object_info_of(head, key(), size.value_or(0));
  if (!size) {
    // An answer of another version explains the contradiction.
    if (version_ && !version_->etag.empty() && !info.etag.empty() && !store::same_etag(version_->etag, info.etag)) {
      info.size_bytes = version_->size_bytes;
      check_version(info);
    }
    return false;
  }
  if (!check_version(info)) return false;
  if (without_if_match_ && !core().without_if_match.exchange(true)) {
    base::log_info("s3: this store refuses If-Match for an unchanged object; ETags are compared here only");
  }
  version_ = info;
  if (!started_) {
    started_ = true;
    sink_->on_start(info);
  }
  return true;
}

bool GetOperation::take_body(std::span<const std::byte> bytes) {
  if (bytes.size() > range_.end - next_) {
    return refuse(Code::kIntegrity, Remedy::kRefetch, "the body is longer than the range");
  }
  if (!sink_->on_bytes(next_, bytes)) return refuse(Code::kCancelled, Remedy::kNone, "the reader wants no more");
  next_ += bytes.size();
  return true;
}

std::optional<Verdict> GetOperation::conclude(const TransferEnd& end) {
  if (next_ == range_.end) return std::nullopt;
  if (next_ != try_begin_) reset_backoff();
  Verdict out;
  out.remedy = Remedy::kRetry;
  out.broken_connection = true;
  out.detail = fmt::format("the body ended after {} of {} bytes{}{}", next_ - try_begin_, range_.end - try_begin_,
                           end.detail.empty() ? "" : ": ", end.detail);
  return out;
}

bool GetOperation::apply(Remedy remedy) {
  if (remedy != Remedy::kWithoutIfMatch) return false;
  without_if_match_ = true;
  return true;
}

void GetOperation::adjust(Verdict& verdict, const ResponseHead& head) {
  if (head.status() != 416 || !version_) return;
  const auto range = parse_content_range(head.header("content-range"));
  // Where the store doesn't say how long the object is now, it is at least not as it was.
  const bool same_size = range && range->size_bytes == version_->size_bytes;
  verdict.code = same_size && range_.end <= version_->size_bytes ? Code::kIntegrity : Code::kChanged;
  if (range_.end > version_->size_bytes) verdict.code = Code::kInvalid;
}

void GetOperation::complete() {
  sink_.reset();
  std::exchange(done_, nullptr)({});
}

void GetOperation::fail(base::Error error) {
  sink_.reset();
  std::exchange(done_, nullptr)(tl::unexpected(std::move(error)));
}

std::string GetOperation::range_text() const { return fmt::format("[{},{})", range_.begin, range_.end); }

}  // namespace shardfs::s3
