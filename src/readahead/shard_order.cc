#include "readahead/shard_order.h"

#include <algorithm>

namespace shardfs::readahead {
namespace {

// A wrong guess costs a shard's first window, a missing one costs a round trip: silent after two misses in a row, also
// after a long time of being right, and right twice as often as wrong before it speaks again.
constexpr int kRight = 1;
constexpr int kWrong = 2;
constexpr int kMostPoints = 4;
constexpr int kLeastPoints = -6;
// More open shards than this are not readers (a job that maps every shard at its start).
constexpr size_t kReadersLimit = 16;
// While a source is new it says two names for each time that it was right.
constexpr int kNamesPerPoint = 2;

}  // namespace

std::string_view name_of(ShardOrder::Source source) {
  switch (source) {
    case ShardOrder::Source::kNumbered: return "numbered";
    case ShardOrder::Source::kStride: return "stride";
    case ShardOrder::Source::kLastEpoch: return "last epoch";
    case ShardOrder::Source::kHint: return "hint";
  }
  return "numbered";
}

void ShardOrder::Score::right() { points = std::min(points + kRight, kMostPoints); }

void ShardOrder::Score::wrong() {
  points = std::max(points - kWrong, kLeastPoints);
  trials = 0;
}

// What one open is answered with: no name twice, none that is open.
class ShardOrder::Answer {
 public:
  Answer(const ShardOrder& order, size_t count) : order_(order), count_(count) {}
  size_t left() const { return count_ - guesses_.size(); }
  bool empty() const { return guesses_.empty(); }
  void add(std::string_view name, Source source) {
    if (left() == 0 || order_.is_open(name)) return;
    for (const Guess& guess : guesses_) {
      if (guess.name == name) return;
    }
    guesses_.push_back({std::string(name), source});
  }
  void add(uint32_t place, Source source) {
    if (place != kNone && !order_.is_recent(place)) add(order_.names_.name(place), source);
  }
  std::vector<Guess> take() { return std::move(guesses_); }

 private:
  const ShardOrder& order_;
  const size_t count_;
  std::vector<Guess> guesses_;
};

void ShardOrder::set_names(std::vector<std::string> names) {
  if (names.size() > kNamesLimit) names.clear();
  NameOrder now(std::move(names));
  const auto moved = names_.places_in(now);
  const auto moved_to = [&](uint32_t old) { return old == kNone ? kNone : moved[old].value_or(kNone); };
  std::vector<Place> places(now.size());
  for (uint32_t old = 0; old < names_.size(); ++old) {
    if (!moved[old]) continue;
    Place& place = places[*moved[old]] = places_[old];
    place.successor = moved_to(place.successor);
  }
  for (Process& process : processes_) {
    process.last = moved_to(process.last);
    process.by_stride = moved_to(process.by_stride);
    process.by_last_epoch = moved_to(process.by_last_epoch);
  }
  fronts_.move_to(names_, now);
  names_ = std::move(now);
  places_ = std::move(places);
}

ShardOrder::Process& ShardOrder::process_of(uint32_t id) {
  const auto found =
      std::find_if(processes_.begin(), processes_.end(), [id](const Process& process) { return process.id == id; });
  if (found != processes_.end()) return *found;
  if (processes_.size() < kProcesses) {
    processes_.emplace_back().id = id;
    return processes_.back();
  }
  Process& oldest = *std::min_element(processes_.begin(), processes_.end(),
                                      [](const Process& a, const Process& b) { return a.used < b.used; });
  oldest = Process{};
  oldest.id = id;
  return oldest;
}

// Notes the name; in a directory of few shards fewer are remembered, as the next epoch comes soon.
bool ShardOrder::is_repeat(Process& process, std::string_view name) const {
  const uint64_t hash = std::hash<std::string_view>{}(name) | 1;
  const size_t remembered = names_.size() == 0 ? kRecentNames : std::clamp<size_t>(names_.size() / 4, 1, kRecentNames);
  const auto end = process.recent.begin() + static_cast<std::ptrdiff_t>(remembered);
  const auto found = std::find(process.recent.begin(), end, hash);
  if (found != end) {
    std::rotate(process.recent.begin(), found, found + 1);
    return true;
  }
  std::rotate(process.recent.begin(), process.recent.end() - 1, process.recent.end());
  process.recent.front() = hash;
  return false;
}

// Steps within which readers that go through one order open the same part of it.
uint32_t ShardOrder::span(uint32_t readers) const { return std::min(names_.size() / 2, 4 * readers + 4); }

bool ShardOrder::is_recent(uint32_t place) const {
  const auto readers = static_cast<uint32_t>(std::clamp<size_t>(open_.size(), 1, kReadersLimit));
  return places_[place].stepped != 0 && tick_ - places_[place].stepped < span(readers);
}

void ShardOrder::learn_hint(std::string_view name, uint32_t readers) {
  if (hints_.empty()) return;
  if (hints_.take(name, readers)) {
    hint_.right();
  } else {
    hint_.wrong();
  }
}

void ShardOrder::learn_numbers(uint32_t place, uint32_t readers, bool seen) {
  const auto recent = [&](uint32_t at) { return at == place || is_recent(at); };
  switch (fronts_.on_step(names_, place, readers, seen, recent)) {
    case NumberFronts::Step::kExpected: return numbered_.right();
    case NumberFronts::Step::kUnexpected: return numbered_.wrong();
    case NumberFronts::Step::kNoOpinion: return;
  }
}

void ShardOrder::learn_stride(Process& process, uint32_t place) {
  if (process.id == 0) return;  // that may be many
  if (process.by_stride != kNone) {
    if (process.by_stride == place) {
      stride_.right();
    } else {
      stride_.wrong();
      common_stride_ = 0;
    }
  }
  process.by_stride = kNone;
  int64_t stride = common_stride_;
  if (process.last != kNone) {
    stride = static_cast<int64_t>(place) - process.last;
    const bool common = std::any_of(processes_.begin(), processes_.end(), [&](const Process& other) {
      return other.id != process.id && other.stride == stride;
    });
    const bool shown = process.stride == stride || common;
    process.stride = stride;
    if (common) common_stride_ = stride;
    if (!shown) return;
  }
  if (stride != 0) process.by_stride = names_.at_distance(place, stride).value_or(kNone);
}

void ShardOrder::learn_successor(Process& process, uint32_t place, uint32_t readers) {
  Place& here = places_[place];
  if (process.by_last_epoch != kNone) {
    const bool foretold = here.foretold != 0 && tick_ - here.foretold <= span(readers);
    if (process.by_last_epoch == place || foretold) {
      last_epoch_.right();
    } else {
      last_epoch_.wrong();
    }
  }
  if (process.last != kNone && process.last != place) places_[process.last].successor = place;
  process.by_last_epoch = here.successor;
  if (here.successor != kNone) places_[here.successor].foretold = tick_;
}

void ShardOrder::say_hint(Answer& answer, uint32_t offers) {
  if (!hint_.speaks()) return;
  const auto use = [this](const std::string& name) {
    if (is_open(name)) return HintList::Use::kNotNow;
    return exists(name) ? HintList::Use::kOffer : HintList::Use::kGone;
  };
  for (const auto& name : hints_.next(answer.left(), offers, use)) answer.add(name, Source::kHint);
}

void ShardOrder::say_known(Answer& answer, const Process& process, uint32_t place, uint32_t readers) {
  // Each of the readers is answered for itself, so its share is enough.
  const size_t share = std::max<size_t>(1, answer.left() / readers);
  if (last_epoch_.speaks()) {
    uint32_t next = places_[place].successor;
    for (size_t i = 0; i < share && next != kNone; ++i, next = places_[next].successor) {
      answer.add(next, Source::kLastEpoch);
    }
  }
  if (stride_.speaks() && process.by_stride != kNone) {
    const int64_t stride = static_cast<int64_t>(process.by_stride) - place;
    for (size_t i = 1; i <= share; ++i) {
      answer.add(names_.at_distance(place, stride * static_cast<int64_t>(i)).value_or(kNone), Source::kStride);
    }
  }
  if (numbered_.speaks()) {
    const size_t most = std::min(answer.left(), static_cast<size_t>(numbered_.points * kNamesPerPoint));
    const auto recent = [&](uint32_t at) { return is_recent(at) || is_open(names_.name(at)); };
    for (const uint32_t next : fronts_.next(names_, most, recent)) answer.add(next, Source::kNumbered);
  }
}

// What was neither right nor wrong yet may try, if nothing better is known.
void ShardOrder::say_untried(Answer& answer, const Process& process, uint32_t place) {
  if (!answer.empty() || answer.left() == 0) return;
  const auto may_try = [](Score& score) { return score.points == 0 && score.trials > 0 && score.trials-- > 0; };
  if (places_[place].successor != kNone && may_try(last_epoch_)) {
    return answer.add(places_[place].successor, Source::kLastEpoch);
  }
  if (process.by_stride != kNone && may_try(stride_)) return answer.add(process.by_stride, Source::kStride);
  if (numbered_.points == 0 && names_.starts_series(place)) {
    const auto recent = [&](uint32_t at) { return is_recent(at) || is_open(names_.name(at)); };
    for (const uint32_t next : fronts_.next(names_, answer.left(), recent)) answer.add(next, Source::kNumbered);
  }
}

std::vector<ShardOrder::Guess> ShardOrder::on_open(std::string_view name, uint32_t process_id, size_t count) {
  if (const auto found = open_.find(name); found != open_.end()) {
    ++found->second;
  } else {
    open_.emplace(name, 1);
  }
  const auto readers = static_cast<uint32_t>(std::clamp<size_t>(open_.size(), 1, kReadersLimit));
  Process& process = process_of(process_id);
  process.used = ++opens_;
  Answer answer(*this, count);
  if (is_repeat(process, name)) return {};
  learn_hint(name, readers);
  // In turn a name is offered once for each place it is ahead; readers that are apart make it twice their number more.
  say_hint(answer, static_cast<uint32_t>(count) + 2 * readers + 2);
  if (const auto place = names_.find(name)) {
    const bool seen = is_recent(*place);
    ++tick_;
    learn_numbers(*place, readers, seen);
    learn_stride(process, *place);
    learn_successor(process, *place, readers);
    process.last = *place;
    places_[*place].stepped = tick_;
    say_known(answer, process, *place, readers);
    say_untried(answer, process, *place);
  }
  return answer.take();
}

void ShardOrder::on_close(std::string_view name) {
  const auto found = open_.find(name);
  if (found != open_.end() && --found->second == 0) open_.erase(found);
}

size_t ShardOrder::hint(std::vector<std::string> names, bool append) {
  if (!append) hints_.clear();
  if (hints_.empty()) {
    hint_ = Score{};
    hint_.points = kMostPoints;  // the user's word
  }
  size_t taken = 0;
  for (auto& name : names) {
    if (hints_.size() >= kNamesLimit) break;
    if (!exists(name)) continue;
    hints_.append(std::move(name));
    ++taken;
  }
  return taken;
}

std::vector<ShardOrder::Guess> ShardOrder::hinted(size_t count) {
  Answer answer(*this, count);
  say_hint(answer, 0);
  return answer.take();
}

}  // namespace shardfs::readahead
