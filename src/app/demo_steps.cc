#include "app/demo_steps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace shardfs::app {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<bool> interrupted{false};
std::atomic<int> wake_descriptor{-1};

extern "C" void on_signal(int) {
  const int error = errno;
  interrupted = true;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_descriptor, &byte, 1);
  errno = error;
}

}  // namespace

DemoSteps::DemoSteps(unsigned count) : count_(count), terminal_(::isatty(STDERR_FILENO) == 1) {}

double DemoSteps::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void DemoSteps::begin(const std::string& what) {
  what_ = what;
  detail_.clear();
  running_ = true;
  ++number_;
  start_ = shown_ = std::chrono::steady_clock::now();
  fmt::print(stderr, "[{}/{}] {} ... ", number_, count_, what_);
  std::fflush(stderr);
}

void DemoSteps::tick(const std::string& detail) {
  if (!detail.empty()) detail_ = detail;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  fmt::print(stderr, "\r\033[K[{}/{}] {} ... {:.0f} s {}", number_, count_, what_, elapsed_s(), detail_);
  std::fflush(stderr);
}

void DemoSteps::end() {
  running_ = false;
  if (terminal_) fmt::print(stderr, "\r\033[K[{}/{}] {} ... ", number_, count_, what_);
  fmt::print(stderr, "{:.1f} s\n", elapsed_s());
}

void DemoSteps::abandon() {
  if (running_) std::fputs("\n", stderr);
  running_ = false;
}

Interrupt::Interrupt() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
  }
  interrupted = false;
  wake_descriptor = write_end_.get();
  for (const int number : kSignals) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    ::sigaction(number, &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (const int number : kSignals) ::signal(number, SIG_DFL);
  wake_descriptor = -1;
}

const std::atomic<bool>& Interrupt::flag() const { return interrupted; }

}  // namespace shardfs::app
