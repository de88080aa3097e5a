#include "s3/operations.h"

namespace shardfs::s3 {

HeadOperation::HeadOperation(Core& core, store::HeadOptions options,
                             std::function<void(base::Result<store::ObjectInfo>)> done)
    : Operation(core, RequestKind::kHead, std::move(options.key), options.priority, options.deadline),
      done_(std::move(done)) {}

base::Result<void> HeadOperation::check() const {
  if (key().empty()) return base::fail(base::Code::kInvalid, "head: the key is empty");
  return {};
}

RequestParts HeadOperation::build() {
  RequestParts out;
  out.kind = kind();
  out.key = key();
  return out;
}

bool HeadOperation::accept(const ResponseHead& head) {
  if (head.status() != 200) return false;
  const auto size = head.content_length();
  if (!size) {
    refuse_ = Verdict{};
    refuse_->code = base::Code::kIntegrity;
    refuse_->remedy = Remedy::kRefetch;
    refuse_->detail = "200 without Content-Length";
    return false;
  }
  info_ = object_info_of(head, key(), *size);
  return true;
}

std::optional<Verdict> HeadOperation::conclude(const TransferEnd&) {
  // The head is all there is; how the connection ended after it says nothing.
  return std::nullopt;
}

void HeadOperation::complete() { std::exchange(done_, nullptr)(std::move(info_)); }

void HeadOperation::fail(base::Error error) { std::exchange(done_, nullptr)(tl::unexpected(std::move(error))); }

}  // namespace shardfs::s3
