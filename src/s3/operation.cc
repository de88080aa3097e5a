#include "s3/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/log.h"
#include "s3/timestamps.h"

namespace shardfs::s3 {
namespace {

using base::Code;

constexpr size_t kErrorBodyLimit = 64 << 10;  // an S3 error document has a few hundred bytes
constexpr unsigned kRefetches = 3;            // of an answer that contradicts itself
// Beyond libcurl's own limit on connecting, which covers name lookup and TLS.
constexpr std::chrono::seconds kConnectGrace{1};

std::minstd_rand& random_source() {
  thread_local std::minstd_rand source{std::random_device{}()};
  return source;
}

base::SteadyTime deadline_after(base::SteadyTime now, std::chrono::milliseconds wait) {
  constexpr std::chrono::hours kLongest{24 * 365};
  return now + std::clamp<std::chrono::milliseconds>(wait, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

Operation::Operation(Core& core, RequestKind kind, store::ObjectKey key, store::Priority priority,
                     std::chrono::milliseconds deadline)
    : core_(core),
      lane_(core.transport().pick_lane()),
      kind_(kind),
      key_(std::move(key)),
      deadline_(deadline_after(core.clock().now(), deadline)),
      priority_(priority) {}

void Operation::launch() {
  core_.in_flight.fetch_add(1);
  lane_.load.fetch_add(1, std::memory_order_relaxed);
  self_ = shared_from_this();
  lane_.loop->post([this] { begin(); });
}

void Operation::cancel() {
  if (cancelled_.exchange(true)) return;
  lane_.loop->post([self = shared_from_this()] { self->abandon(); });
}

void Operation::raise_to(store::Priority priority) {
  auto now = priority_.load();
  while (priority < now && !priority_.compare_exchange_weak(now, priority)) {
  }
  if (priority < now) core_.transport().admission().raise(shared_from_this(), priority);
}

void Operation::abandon() {
  if (state_ == State::kEnded) return;
  end(base::Error{Code::kCancelled, describe() + ": cancelled"});
}

void Operation::begin() {
  lane_.running.insert(this);
  if (core_.stopping || cancelled_) return abandon();
  if (auto checked = check(); !checked) return end(checked.error());
  ask_for_slot(false);
}

void Operation::ask_for_slot(bool first) {
  state_ = State::kQueued;
  if (core_.transport().admission().ask(shared_from_this(), priority_, first, core_.clock().now())) {
    take_slot();
  } else {
    // raise_to may have come between the load above and the queue.
    core_.transport().admission().raise(shared_from_this(), priority_);
    arm();
  }
}

void Operation::on_slot_granted() noexcept {
  lane_.loop->post([self = std::static_pointer_cast<Operation>(shared_from_this())] { self->take_slot(); });
}

void Operation::take_slot() {
  has_slot_ = true;
  if (state_ == State::kEnded) return release_slot();  // it ended while the grant was on its way
  start_try();
}

void Operation::release_slot() {
  if (!has_slot_) return;
  has_slot_ = false;
  core_.transport().admission().release(*this);
}

void Operation::start_try() {
  credentials_ = core_.credentials().current();
  refuse_.reset();
  accepted_ = answered_ = false;
  try_body_bytes_ = 0;
  error_body_.clear();
  head_.clear();
  ++tries_;
  core_.metrics_of(kind_).requests->add();
  if (tries_ > 1) core_.metrics_of(kind_).retries->add();
  try_started_ = progress_ = core_.clock().now();
  state_ = State::kSending;
  transfer_ = lane_.loop->start(core_.make_request(build(), credentials_.get()), *this);
  if (transfer_ == nullptr) {
    Verdict verdict;
    verdict.remedy = Remedy::kRetry;
    verdict.detail = "no memory or handle for a request";
    return act_on(std::move(verdict));
  }
  arm();
}

void Operation::on_sending() noexcept {
  state_ = State::kReceivingHead;
  progress_ = lane_.loop->now();
  arm();  // the time-out for the first byte may be the shorter one
}

bool Operation::on_head(const ResponseHead& head) noexcept {
  state_ = State::kReceivingBody;
  progress_ = core_.clock().now();
  core_.metrics_of(kind_).first_byte->record(progress_ - try_started_);
  accepted_ = accept(head);
  if (refuse_) return false;
  if (!accepted_) head_ = head;
  answered_ = accepted_ || (head.status() < 500 && head.status() != 429);
  if (answered_) core_.transport().admission().answered(progress_, progress_ - try_started_);
  arm();
  return true;
}

bool Operation::on_body(std::span<const std::byte> bytes) noexcept {
  if (cancelled_.load(std::memory_order_relaxed)) return false;
  progress_ = lane_.loop->now();
  try_body_bytes_ += bytes.size();
  if (accepted_) return take_body(bytes);
  const size_t room = kErrorBodyLimit - std::min(kErrorBodyLimit, error_body_.size());
  error_body_.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  return room != 0;
}

void Operation::on_transfer_end(TransferEnd end) noexcept {
  transfer_ = nullptr;
  if (answered_) {
    const auto now = core_.clock().now();
    core_.transport().admission().finished(now, try_body_bytes_, now - try_started_);
  }
  if (cancelled_) return abandon();
  if (refuse_ || !accepted_) return act_on(judge(end));
  if (auto verdict = conclude(end)) return act_on(std::move(*verdict));
  this->end(std::nullopt);
}

Verdict Operation::judge(const TransferEnd& end) {
  if (refuse_) return *refuse_;
  // An error answer that was cut short still says what it says.
  if (head_.status() == 0) return judge_broken(end);
  AnswerContext context;
  context.kind = kind_;
  context.is_signed = credentials_ != nullptr;
  const auto target = core_.target();
  context.region = target->region;
  context.now = core_.store_now();
  context.sent_if_match = sent_if_match();
  Verdict out = judge_answer(head_, error_body_, context);
  adjust(out, head_);
  return out;
}

Verdict Operation::judge_broken(const TransferEnd& end) const {
  using Kind = TransferEnd::Kind;
  Verdict out;
  out.detail = end.detail;
  out.remedy = Remedy::kRetry;
  switch (end.kind) {
    case Kind::kTimedOut:
      out.code = Code::kTimeout;
      out.remedy = Remedy::kRetrySlower;
      break;
    case Kind::kNotTrusted:
      out.code = Code::kInvalid;
      out.remedy = Remedy::kNone;
      out.detail = "TLS: " + end.detail;
      break;
    case Kind::kNotSent:
      out.code = Code::kInvalid;
      out.remedy = Remedy::kNone;
      break;
    case Kind::kBroken:
    case Kind::kComplete:
    case Kind::kRefused: out.broken_connection = true; break;
    case Kind::kNoConnection: out.remedy = Remedy::kRetrySlower; break;
  }
  return out;
}

void Operation::act_on(Verdict verdict) {
  const bool refused = has_slot_ && verdict.remedy == Remedy::kRetrySlower;
  const bool one_too_many = refused && core_.transport().admission().refused(core_.clock().now(), try_started_);
  release_slot();
  switch (verdict.remedy) {
    case Remedy::kNone: return end_with(verdict);
    case Remedy::kRetrySlower: return wait_and_retry(verdict, one_too_many);
    case Remedy::kRetry: return wait_and_retry(verdict);
    case Remedy::kRefetch: return ++refetches_ > kRefetches ? end_with(verdict) : wait_and_retry(verdict);
    default: break;
  }
  if (!used_.insert(verdict.remedy).second) return end_with(verdict);
  last_failure_ = verdict;
  switch (verdict.remedy) {
    case Remedy::kRenewCredentials: return renew_credentials(false, std::move(verdict));
    case Remedy::kRenewIfDiffer: return renew_credentials(true, std::move(verdict));
    case Remedy::kFixClock:
      if (const auto store_now = parse_http_time(head_.header("date"))) {
        core_.fix_clock(*store_now);
        return ask_for_slot(true);
      }
      return end_with(verdict);
    case Remedy::kSwitchRegion:
      if (core_.switch_region(verdict.region)) return ask_for_slot(true);
      return end_with(verdict);
    default:
      if (apply(verdict.remedy)) return ask_for_slot(true);
      return end_with(verdict);
  }
}

void Operation::renew_credentials(bool only_if_differ, Verdict verdict) {
  state_ = State::kRenewing;
  arm();
  core_.credentials().renew(credentials_, [self = shared_from_this(), only_if_differ,
                                           verdict = std::move(verdict)](base::Result<bool> differ) {
    self->lane_.loop->post([self, only_if_differ, verdict, differ = std::move(differ)] {
      if (self->state_ != State::kRenewing) return;
      if (!differ) return self->act_on_failed_renewal(verdict, differ.error());
      if (only_if_differ && !*differ) return self->end_with(verdict);
      self->ask_for_slot(true);
    });
  });
}

void Operation::act_on_failed_renewal(Verdict verdict, const base::Error& error) {
  base::warn_once("s3 renewal " + error.message, "s3: credentials: {}", error.message);
  verdict.detail += "; new credentials: " + error.message;
  if (error.code != Code::kTransient && error.code != Code::kTimeout) return end_with(verdict);
  // Where keys come from is down: that is no word on whether they are right.
  used_.erase(verdict.remedy);
  verdict.code = Code::kTransient;
  wait_and_retry(verdict);
}

void Operation::wait_and_retry(const Verdict& verdict, bool one_too_many) {
  last_failure_ = verdict;
  const auto now = core_.clock().now();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - now);
  // Neither says that the store is busy.
  const bool quick = verdict.broken_connection || verdict.remedy == Remedy::kRefetch;
  const auto pace = one_too_many ? Backoff::Pace::kSoon : quick ? Backoff::Pace::kQuick : Backoff::Pace::kGrowing;
  const auto wait = backoff_.next(random_source(), pace, verdict.retry_after, left);
  if (!wait) return end_with(verdict);
  base::log_debug("s3: {}: {}; next try in {} ms", describe(), verdict.detail, wait->count());
  state_ = State::kWaiting;
  resume_at_ = now + *wait;
  arm();
}

base::SteadyTime Operation::try_due() const {
  const auto& options = core_.options();
  switch (state_) {
    case State::kSending: return progress_ + options.connect_timeout + kConnectGrace;
    case State::kReceivingHead: return progress_ + options.first_byte_timeout;
    case State::kReceivingBody: return progress_ + options.stall_timeout;
    case State::kWaiting: return resume_at_;
    default: return base::SteadyTime::max();
  }
}

void Operation::arm() { lane_.loop->arm(*this, std::min(deadline_, try_due())); }

void Operation::on_timer() noexcept {
  const auto now = lane_.loop->now();  // what had come by then has been read
  if (state_ == State::kWaiting && now >= resume_at_ && now < deadline_) return ask_for_slot(true);
  if (now < std::min(deadline_, try_due())) return arm();  // there was progress meanwhile
  const bool over = now >= deadline_;
  Verdict verdict;
  if (over && last_failure_ && (state_ == State::kWaiting || state_ == State::kQueued)) return end_with(*last_failure_);
  // At the deadline the failure before this try counts; a slow last try doesn't turn a 503 into a time-out.
  const bool was_transient = over && last_failure_ && last_failure_->code == Code::kTransient;
  verdict.code = was_transient ? Code::kTransient : Code::kTimeout;
  verdict.remedy = over ? Remedy::kNone : Remedy::kRetrySlower;
  switch (state_) {
    case State::kQueued: verdict.detail = "no free connection within the deadline"; break;
    case State::kSending: verdict.detail = "no connection in time"; break;
    case State::kReceivingHead: verdict.detail = "no answer in time"; break;
    case State::kReceivingBody: verdict.detail = "the body stalled"; break;
    default: verdict.detail = "the deadline has passed"; break;
  }
  if (over && last_failure_) verdict.detail += "; before that: " + last_failure_->detail;
  if (transfer_ != nullptr) lane_.loop->stop(std::exchange(transfer_, nullptr));
  act_on(std::move(verdict));
}

void Operation::end_with(const Verdict& verdict) {
  end(base::Error{verdict.code, fmt::format("{}: {}{}", describe(), verdict.detail,
                                            tries_ > 1 ? fmt::format(" (after {} tries)", tries_) : "")});
}

void Operation::end(std::optional<base::Error> error) {
  const auto self = shared_from_this();
  self_.reset();
  lane_.loop->disarm(*this);
  if (transfer_ != nullptr) lane_.loop->stop(std::exchange(transfer_, nullptr));
  if (state_ == State::kQueued) core_.transport().admission().withdraw(*this);
  release_slot();
  state_ = State::kEnded;
  lane_.running.erase(this);
  lane_.load.fetch_sub(1, std::memory_order_relaxed);
  if (error) {
    if (error->code != Code::kCancelled) core_.errors(error->code).add();
    if (error->code == Code::kPermission) base::warn_once("s3 refused " + key_, "s3: {}", error->message);
    fail(std::move(*error));
  } else {
    complete();
  }
  // The store's destructor waits for this; it may be gone right after.
  if (core_.in_flight.fetch_sub(1) == 1) core_.in_flight.notify_all();
}

std::string Operation::describe() const {
  const auto range = range_text();
  return fmt::format("{} s3://{}/{}{}{}", name_of(kind_), core_.options().bucket, printable(key_),
                     range.empty() ? "" : " ", range);
}

}  // namespace shardfs::s3
