#include "s3/event_loop.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/executor.h"
#include "base/log.h"

namespace shardfs::s3 {
namespace {

constexpr size_t kIdleHandles = 64;  // each may keep a receive buffer
constexpr int kEventsAtOnce = 64;
// What may be read ahead of the bandwidth limit: fewer and longer pauses.
constexpr std::chrono::milliseconds kDebtAllowed{5};

CURLM* as_multi(void* multi) { return static_cast<CURLM*>(multi); }

}  // namespace

struct EventLoop::Callbacks {
  static int socket(CURL*, curl_socket_t fd, int what, void* user, void* known) noexcept {
    auto& self = *static_cast<EventLoop*>(user);
    if (what == CURL_POLL_REMOVE) {
      epoll_ctl(self.epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);  // fails if the socket is closed already
      return 0;
    }
    epoll_event event{};
    if (what & CURL_POLL_IN) event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
    event.data.fd = fd;
    int operation = known != nullptr ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(self.epoll_.get(), operation, fd, &event) != 0) {
      operation = operation == EPOLL_CTL_ADD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
      // An error returned to libcurl would end all transfers of the loop; so this one stalls, and is tried again.
      if (epoll_ctl(self.epoll_.get(), operation, fd, &event) != 0) {
        base::log_warning("s3: epoll_ctl: {}", std::strerror(errno));
      }
    }
    if (known == nullptr) curl_multi_assign(as_multi(self.multi_), fd, &self);
    return 0;
  }

  static int timer(CURLM*, long timeout_ms, void* user) noexcept {
    auto& self = *static_cast<EventLoop*>(user);
    self.curl_timer_armed_ = timeout_ms >= 0;
    if (timeout_ms >= 0) self.curl_timer_ = self.clock_.now() + std::chrono::milliseconds(timeout_ms);
    return 0;
  }
};

base::Result<std::unique_ptr<EventLoop>> EventLoop::make(unsigned index, const TransportOptions& options,
                                                         BandwidthLimit& bandwidth, base::Counter& received_bytes,
                                                         base::Clock& clock) {
  std::unique_ptr<EventLoop> loop(new EventLoop(index, options, bandwidth, received_bytes, clock));
  if (!loop->set_up()) return base::fail_errno(base::Code::kNoMemory, "no event loop for the store", errno);
  return loop;
}

EventLoop::EventLoop(unsigned index, const TransportOptions& options, BandwidthLimit& bandwidth,
                     base::Counter& received_bytes, base::Clock& clock)
    : index_(index), options_(options), bandwidth_(bandwidth), received_bytes_(received_bytes), clock_(clock) {}

bool EventLoop::set_up() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  multi_ = curl_multi_init();
  if (!epoll_.valid() || !wake_.valid() || multi_ == nullptr) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return false;
  CURLM* multi = as_multi(multi_);
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Callbacks::socket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Callbacks::timer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, options_.idle_connections);
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});

  // Signals are the main thread's, and a closed connection must not end the process.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // it looks into the cache's maps: see base/mapping.h
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}

EventLoop::~EventLoop() {
  if (thread_.joinable()) {
    post([this] { stop_ = true; });
    thread_.join();
  }
  active_.clear();
  idle_.clear();
  if (multi_ != nullptr) curl_multi_cleanup(as_multi(multi_));
}

void EventLoop::post(std::function<void()> task) {
  bool first = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    first = inbox_.empty();
    inbox_.push_back(std::move(task));
  }
  if (first) eventfd_write(wake_.get(), 1);
}

void EventLoop::run() noexcept {
  base::name_this_thread(fmt::format("s3-loop-{}", index_));
  now_ = clock_.now();
  for (;;) {
    run_tasks();
    if (stop_) break;
    if (curl_timer_armed_ && curl_timer_ <= clock_.now()) {
      curl_timer_armed_ = false;
      drive(CURL_SOCKET_TIMEOUT, 0);
    }
    resume_paused();
    run_ends();
    wait_for_events();
    run_ends();
    run_timers();  // last: what has come counts, also when this thread was held up
  }
}

int EventLoop::wait_ms(base::SteadyTime now) const {
  auto until = base::SteadyTime::max();
  if (curl_timer_armed_) until = curl_timer_;
  if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
  for (const Transfer* transfer : paused_) {
    until = std::min(until, now + bandwidth_.debt(transfer->handler().is_urgent(), now));
  }
  if (until == base::SteadyTime::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 60000));
}

void EventLoop::wait_for_events() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, wait_ms(clock_.now()));
  now_ = clock_.now();
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    if (fd == wake_.get()) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      continue;
    }
    const auto flags = events[static_cast<size_t>(i)].events;
    int what = 0;
    if (flags & (EPOLLIN | EPOLLHUP | EPOLLERR)) what |= CURL_CSELECT_IN;
    if (flags & EPOLLOUT) what |= CURL_CSELECT_OUT;
    if (flags & EPOLLERR) what |= CURL_CSELECT_ERR;
    drive(fd, what);
  }
}

void EventLoop::drive(int fd, int events) {
  int running = 0;
  const auto result = curl_multi_socket_action(as_multi(multi_), fd, events, &running);
  if (result != CURLM_OK) base::log_warning("s3: libcurl's loop: {}", curl_multi_strerror(result));
}

bool EventLoop::may_take(Transfer& transfer, size_t bytes) {
  received_ += bytes;
  if (!bandwidth_.limits()) return true;
  const auto now = clock_.now();
  const bool urgent = transfer.handler().is_urgent();
  if (bandwidth_.debt(urgent, now) > kDebtAllowed) {
    received_ -= bytes;  // they come again
    paused_.push_back(&transfer);
    return false;
  }
  bandwidth_.took(bytes, urgent, now);
  return true;
}

void EventLoop::resume_paused() {
  if (paused_.empty()) return;
  // One after the other while there is no debt: those that a reader waits for, then the longest waiting one.
  std::stable_partition(paused_.begin(), paused_.end(),
                        [](const Transfer* transfer) { return transfer->handler().is_urgent(); });
  for (size_t left = paused_.size(); left > 0; --left) {
    Transfer* transfer = paused_.front();
    if (bandwidth_.debt(transfer->handler().is_urgent(), clock_.now()) > std::chrono::nanoseconds::zero()) return;
    paused_.pop_front();
    if (curl_easy_pause(static_cast<CURL*>(transfer->easy()), CURLPAUSE_CONT) == CURLE_OK) continue;
    // The handler refused a byte that was held back; libcurl does not end such a transfer by itself.
    TransferHandler& handler = transfer->handler();
    stop(transfer);
    handler.on_transfer_end({TransferEnd::Kind::kRefused, {}});
  }
}

void EventLoop::run_tasks() {
  {
    const std::lock_guard lock(inbox_mutex_);
    tasks_.swap(inbox_);
  }
  for (auto& task : tasks_) task();
  tasks_.clear();
}

void EventLoop::run_timers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    LoopTimer& timer = *timers_.begin()->second;
    disarm(timer);
    timer.on_timer();
  }
}

void EventLoop::run_ends() {
  if (received_ != 0) received_bytes_.add(std::exchange(received_, 0));  // before anybody hears of the end
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(as_multi(multi_), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = Transfer::of_easy(message->easy_handle);
    TransferEnd end = transfer->end_of(message->data.result);  // the message dies with the removal
    TransferHandler& handler = transfer->handler();
    stop(transfer);
    handler.on_transfer_end(std::move(end));
  }
}

Transfer* EventLoop::start(const TransferRequest& request, TransferHandler& handler) {
  std::unique_ptr<Transfer> transfer;
  if (idle_.empty()) {
    transfer = Transfer::make(options_);
    if (!transfer) return nullptr;
  } else {
    transfer = std::move(idle_.back());
    idle_.pop_back();
  }
  if (!transfer->prepare(request, handler, *this)) return nullptr;
  if (curl_multi_add_handle(as_multi(multi_), transfer->easy()) != CURLM_OK) return nullptr;
  active_.push_back(std::move(transfer));
  return active_.back().get();
}

void EventLoop::stop(Transfer* transfer) {
  const auto found =
      std::find_if(active_.begin(), active_.end(), [&](const auto& other) { return other.get() == transfer; });
  if (found == active_.end()) return;
  curl_multi_remove_handle(as_multi(multi_), transfer->easy());
  paused_.erase(std::remove(paused_.begin(), paused_.end(), transfer), paused_.end());
  if (idle_.size() < kIdleHandles) idle_.push_back(std::move(*found));
  std::swap(*found, active_.back());
  active_.pop_back();
}

void EventLoop::arm(LoopTimer& timer, base::SteadyTime at) {
  if (timer.armed_) timers_.erase({timer.at_, &timer});
  timer.at_ = at;
  timer.armed_ = true;
  timers_.emplace(at, &timer);
}

void EventLoop::disarm(LoopTimer& timer) {
  if (!timer.armed_) return;
  timers_.erase({timer.at_, &timer});
  timer.armed_ = false;
}

}  // namespace shardfs::s3
