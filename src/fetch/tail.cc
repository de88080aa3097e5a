#include "fetch/tail.h"

#include <algorithm>

namespace shardfs::fetch {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Source: at 1 GB/s in parts of 4 MiB, the last second or so; a p95 of fewer than 20 is the worst of them.
constexpr size_t kRemembered = 200;
constexpr size_t kEnough = 20;
// Late is twice the time that one answer in twenty exceeds, and a little. Source: at 5 % of all parts the budget of
// second requests is used up by what is not late but only slow; the least is what a reader far
// behind its read-ahead does not notice, and longer than a busy machine keeps a thread waiting.
constexpr int kFactor = 2;
constexpr milliseconds kMore{10};
constexpr milliseconds kLeast{200};
// A shorter body comes at once, and says nothing about the speed.
constexpr uint64_t kMeasurableBytes = 1 << 20;

}  // namespace

void Tail::Recent::add(nanoseconds value) {
  if (values_.size() < kRemembered) {
    values_.push_back(value);
    return;
  }
  values_[next_] = value;
  next_ = (next_ + 1) % kRemembered;
}

nanoseconds Tail::Recent::p95() const {
  if (values_.empty()) return {};
  auto sorted = values_;
  const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
}

void Tail::add_body(uint64_t bytes, nanoseconds duration) {
  if (bytes < kMeasurableBytes) return;
  bodies_.add(nanoseconds(
      static_cast<int64_t>(static_cast<double>(duration.count()) * (1 << 20) / static_cast<double>(bytes))));
}

std::optional<Tail::Limits> Tail::limits() const {
  if (first_bytes_.count() < kEnough) return std::nullopt;
  return Limits{std::max<nanoseconds>(kLeast, kFactor * first_bytes_.p95() + kMore), kFactor * bodies_.p95()};
}

}  // namespace shardfs::fetch
