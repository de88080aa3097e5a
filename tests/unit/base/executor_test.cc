#include "base/executor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>

extern char** environ;

namespace shardfs::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::string this_thread_name() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

TEST_CASE("a pool runs every task that was posted, from many threads") {
  std::atomic<int> ran{0};
  {
    ThreadPool pool("test", 3);
    std::vector<std::thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int n = 0; n < 500; ++n) pool.post([&] { ++ran; });
      });
    }
    for (auto& poster : posters) poster.join();
    pool.drain();
    CHECK(ran == 2000);
    CHECK(pool.pending() == 0);
  }
}

TEST_CASE("one thread keeps the order of posts") {
  std::vector<int> order;
  ThreadPool pool("test", 1);
  for (int n = 0; n < 100; ++n) pool.post([&, n] { order.push_back(n); });
  pool.drain();
  REQUIRE(order.size() == 100);
  for (int n = 0; n < 100; ++n) CHECK(order[static_cast<size_t>(n)] == n);
}

TEST_CASE("the destructor of a pool runs what is queued, also what tasks post meanwhile") {
  std::atomic<int> ran{0};
  {
    ThreadPool pool("test", 1);
    for (int n = 0; n < 50; ++n) {
      pool.post([&] {
        ++ran;
        pool.post([&] { ++ran; });
      });
    }
  }
  CHECK(ran == 100);
}

TEST_CASE("drain waits for the tasks posted before it, running and queued") {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::atomic<int> ended{0};
  ThreadPool pool("test", 2);
  for (int n = 0; n < 4; ++n) {
    pool.post([&, opened] {
      opened.wait();
      ++ended;
    });
  }
  CHECK(pool.pending() == 4);
  std::thread opener([&] { gate.set_value(); });
  pool.drain();
  CHECK(ended == 4);
  opener.join();
}

TEST_CASE("drain returns although tasks go on being posted") {
  std::atomic<bool> stop{false};
  std::function<void()> again;
  ThreadPool pool("test", 2);
  again = [&] {
    if (!stop) pool.post(again);
  };
  pool.post(again);
  pool.drain();  // the pool is never idle before stop
  CHECK(pool.pending() > 0);
  stop = true;
  pool.drain();
}

TEST_CASE("what a task captured is gone when drain returns") {
  ThreadPool pool("test", 2);
  auto captured = std::make_shared<int>(1);
  pool.post([captured] {});
  pool.drain();
  CHECK(captured.use_count() == 1);
}

TEST_CASE("a pool asked for no threads has one") {
  std::atomic<bool> ran{false};
  ThreadPool pool("test", 0);
  pool.post([&] { ran = true; });
  pool.drain();
  CHECK(ran);
}

TEST_CASE("threads carry names, cut to what the kernel keeps") {
  std::string seen;
  ThreadPool pool("twelve_chars_and_more", 1);
  pool.post([&] { seen = this_thread_name(); });
  pool.drain();
  CHECK(seen == "twelve_chars-0");
  std::thread([&] {
    name_this_thread("0123456789abcdefghi");
    seen = this_thread_name();
  }).join();
  CHECK(seen == "0123456789abcde");
}

TEST_CASE("a timer runs tasks in the order of their time, not before it") {
  std::vector<int> order;
  std::promise<void> last;
  SteadyTime ran_at;
  Timer timer("test");
  const auto start = std::chrono::steady_clock::now();
  timer.schedule(milliseconds(20), [&] {
    order.push_back(2);
    ran_at = std::chrono::steady_clock::now();
    last.set_value();
  });
  timer.schedule(milliseconds(1), [&] { order.push_back(1); });
  last.get_future().wait();
  CHECK(order == std::vector<int>{1, 2});
  CHECK(ran_at - start >= milliseconds(20));
}

TEST_CASE("a time in the past runs at once, one beyond the clock never") {
  std::promise<void> ran;
  Timer timer("test");
  timer.schedule(nanoseconds(-5), [&] { ran.set_value(); });
  ran.get_future().wait();
  const TimerId never = timer.schedule(nanoseconds::max(), [] {});
  CHECK(timer.pending() == 1);
  CHECK(timer.cancel(never));
  CHECK(timer.pending() == 0);
}

TEST_CASE("an earlier task is not held up by a later one that was scheduled first") {
  std::promise<void> ran;
  Timer timer("test");
  timer.schedule(hours(1), [] {});
  timer.schedule(milliseconds(1), [&] { ran.set_value(); });
  ran.get_future().wait();
  CHECK(timer.pending() == 1);
}

TEST_CASE("cancel says whether the task was kept from starting") {
  std::promise<void> started;
  std::promise<void> end;
  auto gate = end.get_future();
  Timer timer("test");
  auto captured = std::make_shared<int>(1);
  const TimerId later = timer.schedule(hours(1), [captured] {});
  CHECK(timer.cancel(later));
  CHECK(captured.use_count() == 1);
  CHECK_FALSE(timer.cancel(later));
  CHECK_FALSE(timer.cancel(later + 1000));

  const TimerId running = timer.schedule(nanoseconds(0), [&] {
    started.set_value();
    gate.wait();
  });
  started.get_future().wait();
  CHECK_FALSE(timer.cancel(running));
  end.set_value();
}

TEST_CASE("each task is either cancelled or run, never both, whatever the race") {
  std::atomic<int> ran{0};
  int cancelled = 0;
  constexpr int kTasks = 2000;
  {
    std::promise<void> after_all;
    Timer timer("test");
    std::vector<TimerId> ids;
    for (int n = 0; n < kTasks; ++n) ids.push_back(timer.schedule(nanoseconds(n * 500), [&] { ++ran; }));
    for (const TimerId id : ids) cancelled += timer.cancel(id) ? 1 : 0;
    timer.schedule(nanoseconds(0), [&] { after_all.set_value(); });
    after_all.get_future().wait();
    CHECK(timer.pending() == 0);
  }
  CHECK(ran + cancelled == kTasks);
}

TEST_CASE("a task may schedule and cancel on its own timer") {
  std::promise<bool> done;
  Timer timer("test");
  const TimerId victim = timer.schedule(hours(1), [] {});
  timer.schedule(nanoseconds(0), [&] {
    const bool cancelled = timer.cancel(victim);
    timer.schedule(nanoseconds(0), [&done, cancelled] { done.set_value(cancelled); });
  });
  CHECK(done.get_future().get());
}

TEST_CASE("the destructor of a timer drops what is queued") {
  auto captured = std::make_shared<int>(1);
  std::atomic<bool> ran{false};
  {
    Timer timer("test");
    timer.schedule(hours(1), [captured, &ran] { ran = true; });
  }
  CHECK_FALSE(ran);
  CHECK(captured.use_count() == 1);
}

// Run only by the case below, in a process of its own.
TEST_CASE("throwing task" * doctest::skip()) {
  ThreadPool pool("test", 1);
  pool.post([] { throw std::runtime_error("thrown on purpose"); });
  pool.drain();
}

TEST_CASE("a task that throws ends the process with a message") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::string program = "test_base", skipped = "--no-skip", which = "--test-case=throwing task";
  std::array<char*, 4> arguments = {program.data(), skipped.data(), which.data(), nullptr};
  pid_t child = 0;
  REQUIRE(::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string output;
  std::array<char, 4096> piece;
  for (ssize_t got; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    output.append(piece.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status != 0);
  CHECK(output.find("thrown on purpose") != std::string::npos);
}

}  // namespace
}  // namespace shardfs::base
