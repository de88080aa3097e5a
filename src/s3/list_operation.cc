#include <fmt/format.h>

#include <algorithm>

#include "s3/list_parser.h"
#include "s3/operations.h"

namespace shardfs::s3 {
namespace {

using base::Code;

// 1,000 keys of 1,024 bytes, each encoded as %XX, with the XML around them, are about 4 MiB.
constexpr size_t kPageLimit = 32 << 20;
// The last code point: a start after PREFIX + this is behind all keys below the prefix.
constexpr std::string_view kLast = "\xf4\x8f\xbf\xbf";

Verdict contradiction(std::string detail, Remedy remedy = Remedy::kRefetch) {
  Verdict out;
  out.code = Code::kIntegrity;
  out.remedy = remedy;
  out.detail = std::move(detail);
  return out;
}

}  // namespace

ListOperation::ListOperation(Core& core, store::ListOptions options,
                             std::function<void(base::Result<store::ListPage>)> done)
    : Operation(core, RequestKind::kList, options.prefix, options.priority, options.deadline),
      options_(std::move(options)),
      done_(std::move(done)),
      version_1_(options_.continuation.empty() ? core.list_version_1.load() : options_.continuation.starts_with("m:")) {
}

base::Result<void> ListOperation::check() const {
  const auto& token = options_.continuation;
  if (token.empty() || token.starts_with("t:") || token.starts_with("a:") || token.starts_with("m:")) return {};
  return base::fail(Code::kInvalid, "list: a continuation that is not from this store");
}

/// The name to start after; empty: the beginning, or a token says it.
std::string ListOperation::after() const {
  const auto& token = options_.continuation;
  if (token.empty()) return options_.start_after;
  return token.starts_with("t:") ? std::string() : token.substr(2);
}

RequestParts ListOperation::build() {
  body_.clear();
  RequestParts out;
  out.kind = kind();
  out.query = {{"encoding-type", "url"}, {"max-keys", std::to_string(std::max(1u, options_.max_keys))}};
  out.query.emplace_back("prefix", options_.prefix);
  if (!options_.delimiter.empty()) out.query.emplace_back("delimiter", options_.delimiter);
  if (!version_1_) out.query.emplace_back("list-type", "2");
  if (options_.continuation.starts_with("t:")) {
    out.query.emplace_back("continuation-token", options_.continuation.substr(2));
  } else if (const auto name = after(); !name.empty()) {
    out.query.emplace_back(version_1_ ? "marker" : "start-after", name);
  }
  return out;
}

bool ListOperation::accept(const ResponseHead& head) { return head.status() == 200; }

bool ListOperation::take_body(std::span<const std::byte> bytes) {
  if (body_.size() + bytes.size() > kPageLimit) {
    refuse_ = contradiction("the listing page is too long", Remedy::kNone);
    return false;
  }
  body_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

std::optional<Verdict> ListOperation::conclude(const TransferEnd& end) {
  if (end.kind != TransferEnd::Kind::kComplete) {
    Verdict out;
    out.remedy = Remedy::kRetry;
    out.broken_connection = true;
    out.detail = "the listing broke off: " + end.detail;
    return out;
  }
  auto page = parse_list_page(std::move(body_));
  if (!page) return contradiction(page.error().message);
  if (page->version_1 && !version_1_) {
    // The store knows no version 2, so it has ignored where to start.
    version_1_ = true;
    if (!after().empty()) return contradiction("the store lists in version 1 only", Remedy::kListVersion1);
  }
  if (version_1_) core().list_version_1 = true;

  page_.truncated = page->truncated;
  if (page->truncated) {
    std::string last = page->last_name();
    if (!page->next_token.empty() && !version_1_) {
      page_.continuation = "t:" + page->next_token;
      if (page_.continuation == options_.continuation) {
        return contradiction("the listing makes no progress: the next page is this page", Remedy::kNone);
      }
    } else {
      const bool ends_in_prefix =
          !page->prefixes.empty() && last == *std::max_element(page->prefixes.begin(), page->prefixes.end());
      if (ends_in_prefix) last += kLast;
      if (version_1_ && !page->next_marker.empty()) last = page->next_marker;
      if (last.empty() || last <= after()) {
        return contradiction("the listing makes no progress: cut off after '" + printable(last) + "'", Remedy::kNone);
      }
      page_.continuation = (version_1_ ? "m:" : "a:") + last;
    }
  }
  page_.objects = std::move(page->objects);
  page_.prefixes = std::move(page->prefixes);
  return std::nullopt;
}

bool ListOperation::apply(Remedy remedy) {
  if (remedy != Remedy::kListVersion1 || options_.continuation.starts_with("t:")) return false;
  version_1_ = true;
  return true;
}

void ListOperation::complete() { std::exchange(done_, nullptr)(std::move(page_)); }

void ListOperation::fail(base::Error error) { std::exchange(done_, nullptr)(tl::unexpected(std::move(error))); }

}  // namespace shardfs::s3
