#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "app/command.h"
#include "app/message.h"
#include "base/units.h"
#include "control/socket_path.h"
#include "control/top.h"
#include "shardfs/control_client.h"
#include "shardfs/version.h"

namespace shardfs::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Arguments {
  std::string interval = "1s";
  size_t count = 0;
};

volatile sig_atomic_t ended = 0;
extern "C" void end_top(int) { ended = 1; }

/// The terminal's second screen, without echo; as it was before when this goes.
class Screen {
 public:
  Screen()
      : on_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!on_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::fputs("\x1b[?1049h\x1b[?25l", stdout);
  }
  ~Screen() {
    if (!on_) return;
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool on() const { return on_; }
  size_t width() const {
    winsize size{};
    return on_ && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  }
  void show(const std::string& text) const {
    std::fputs(on_ ? ("\x1b[H\x1b[J" + text).c_str() : text.c_str(), stdout);
    std::fflush(stdout);
  }
  /// False when the user wants the end: q, Ctrl-C, or SIGTERM.
  bool wait(milliseconds time) const {
    const auto deadline = steady_clock::now() + time;
    while (ended == 0) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
      if (left <= 0) return true;
      pollfd watched = {on_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (::poll(&watched, 1, static_cast<int>(left)) <= 0) continue;
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
    }
    return false;
  }

 private:
  termios before_{};
  const bool on_;
};

std::vector<control::TopSample> sample_all(const std::string& folder) {
  std::vector<control::TopSample> samples;
  for (const auto& mount : control::list_states(folder)) {
    // One that hangs holds the others up for no longer than this.
    auto client = ControlClient::connect(mount.socket, milliseconds(500));
    const auto answer = client ? client->stats() : tl::unexpected(client.error());
    if (!answer) continue;
    if (auto sample = control::top_sample(*answer)) samples.push_back(std::move(*sample));
  }
  return samples;
}

int top(const Arguments& arguments) {
  const auto interval = base::parse_duration(arguments.interval);
  if (!interval || interval->count() < 100 || *interval > std::chrono::hours(1)) {
    print_error("--interval: a time from 100ms to 1h");
    return kExitUsage;
  }
  const auto folder = control::runtime_folder();
  if (!folder) {
    print_error(folder.error().message);
    return kExitFailed;
  }
  struct sigaction action {};
  action.sa_handler = end_top;
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
  const Screen screen;
  std::vector<control::TopSample> before;
  auto at = steady_clock::now();
  // A table without rates says little: a pipe gets none of them.
  if (!screen.on()) {
    before = sample_all(*folder);
    if (!screen.wait(*interval)) return kExitOk;
  }
  for (size_t shown = 0; arguments.count == 0 || shown < arguments.count; ++shown) {
    if (shown > 0 && !screen.wait(*interval)) break;
    const auto now = sample_all(*folder);
    const auto then = steady_clock::now();
    const double seconds = std::chrono::duration<double>(then - at).count();
    std::string head;
    if (screen.on())
      head = fmt::format("shardfs {}: {} mounts, every {}; q ends\n\n", version(), now.size(), arguments.interval);
    screen.show(head + control::top_table(before, now, seconds, screen.width()));
    before = now;
    at = then;
  }
  return kExitOk;
}

}  // namespace

void add_top_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("top", "Watch all mounts of this user: rates, hits, stalls, errors");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("--interval", arguments->interval, "Between two looks. Default: 1s")->type_name("TIME");
  command->add_option("--count", arguments->count, "End after so many tables. Default: 0, at q or Ctrl-C")
      ->type_name("N");
  command->footer(
      "READ: answered by the daemon. PASS: sizes of files opened in passthrough. STORE: received. HIT: estimated.\n"
      "STALL: readers that waited, on average. Not on a terminal, it prints one table after the other.\n"
      "\n"
      "Examples:\n"
      "  shardfs top\n"
      "  shardfs top --interval 10s --count 6 >table.txt");
  command->callback([arguments, &exit_code] { exit_code = top(*arguments); });
}

}  // namespace shardfs::app
