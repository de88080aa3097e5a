#include "teststore/faults.h"

#include <sys/eventfd.h>

#include <array>

#include "teststore/generate.h"

namespace shardfs::teststore {
namespace {

constexpr std::array<std::string_view, 23> kActionNames = {
    "delay",       "reset",    "close",      "stall",       "short",     "long",        "wrong_range", "full_200",
    "partial_200", "no_range", "bad_length", "flip",        "status",    "etag",        "html",        "black_hole",
    "slow",        "v1",       "plain_keys", "repeat_page", "unordered", "lower_names", "headers"};
static_assert(kActionNames.size() == static_cast<size_t>(Action::kHeaders) + 1);

// A number in [0, 1) for the n-th matching request of a fault.
double draw(uint64_t seed, uint64_t n) {
  return static_cast<double>(splitmix64(splitmix64(seed) + n) >> 11) / static_cast<double>(1ULL << 53);
}

}  // namespace

std::string_view name_of(Action action) { return kActionNames[static_cast<size_t>(action)]; }

std::optional<Action> action_named(std::string_view name) {
  for (size_t i = 0; i < kActionNames.size(); ++i) {
    if (kActionNames[i] == name) return static_cast<Action>(i);
  }
  return std::nullopt;
}

bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    if (p < pattern.size() && (escaped ? pattern[p + 1] == text[t] : pattern[p] == '?' || pattern[p] == text[t])) {
      p += escaped ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool Match::fits(const Request& request, const AskedRange& asked) const {
  if (!method.empty() && method != request.method) return false;
  if (kind && *kind != request.kind) return false;
  if (!bucket.empty() && bucket != request.bucket) return false;
  if (!key.empty()) {
    const bool list = request.kind == Kind::kList;
    if (!glob_matches(key, list ? request.parameter("prefix").value_or("") : std::string_view(request.key)))
      return false;
  }
  if (range_begin_at_least > 0 && (request.kind != Kind::kGet || asked.begin < range_begin_at_least)) return false;
  if (!access_key.empty() && access_key != request.access_key()) return false;
  return header.empty() || request.header(header).has_value();
}

uint64_t Faults::add(Fault fault) {
  std::lock_guard lock(mutex_);
  entries_.push_back({next_id_, std::move(fault), 0});
  fired_[next_id_] = 0;
  return next_id_++;
}

void Faults::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

std::vector<Fault> Faults::take(const Request& request, const AskedRange& asked, uint64_t concurrent) {
  std::vector<Fault> taken;
  bool other = false;
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    const Fault& fault = entry.fault;
    uint64_t& fired = fired_[entry.id];
    const bool is_delay = fault.action == Action::kDelay;
    if (!is_delay && other) continue;
    if (fault.times >= 0 && fired >= static_cast<uint64_t>(fault.times)) continue;
    if (!fault.match.fits(request, asked) || concurrent <= fault.concurrent_above) continue;
    const uint64_t n = entry.matched++;
    if (n < fault.skip || draw(fault.seed, n) >= fault.probability) continue;
    ++fired;
    other |= !is_delay;
    taken.push_back(fault);
  }
  return taken;
}

uint64_t Faults::fired(uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto found = fired_.find(id);
  return found == fired_.end() ? 0 : found->second;
}

std::map<uint64_t, uint64_t> Faults::fired() const {
  std::lock_guard lock(mutex_);
  return fired_;
}

Gate::Gate() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Gate::open() { ::eventfd_write(fd_.get(), 1); }

uint64_t Holds::add(Match match, int64_t at_byte) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  entries_[id] = {std::move(match), {std::make_shared<Gate>(), at_byte, id}, 0};
  return id;
}

void Holds::release(uint64_t id) {
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (id != 0 && at->first != id) {
      ++at;
      continue;
    }
    at->second.held.gate->open();
    at = entries_.erase(at);
  }
  changed_.notify_all();
}

std::optional<Holds::Held> Holds::find(const Request& request, const AskedRange& asked) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.match.fits(request, asked)) return entry.held;
  }
  return std::nullopt;
}

void Holds::enter(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (const auto at = entries_.find(id); at != entries_.end()) ++at->second.waiting;
  changed_.notify_all();
}

void Holds::leave(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (const auto at = entries_.find(id); at != entries_.end()) --at->second.waiting;
  changed_.notify_all();
}

size_t Holds::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_locked();
}

bool Holds::await_waiting(size_t count, std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return waiting_locked() == count; });
}

size_t Holds::waiting_locked() const {
  size_t total = 0;
  for (const auto& [id, entry] : entries_) total += entry.waiting;
  return total;
}

}  // namespace shardfs::teststore
