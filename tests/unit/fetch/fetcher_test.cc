#include <doctest/doctest.h>

#include <thread>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;

TEST_CASE("a miss parks, is answered as its bytes arrive; a window is under way in order, then the whole shard") {
  Rig rig(true);
  auto file = rig.open(20 * kMiB + 100);
  Answer answer;
  CHECK(rig.read(*file, {0, 128 * kKiB}, answer) != nullptr);
  CHECK(answer.calls == 0);
  auto gets = rig.store.open();
  REQUIRE(gets.size() == 3);
  CHECK(gets[0]->range() == ByteRange{0, kMiB});
  CHECK(gets[0]->options.priority == store::Priority::kDemand);
  CHECK(gets[1]->range() == ByteRange{kMiB, 9 * kMiB});
  CHECK(gets[1]->options.priority == store::Priority::kReadahead);
  CHECK(gets[2]->range() == ByteRange{9 * kMiB, 16 * kMiB});
  gets[0]->send(128 * kKiB - 1);
  CHECK(answer.calls == 0);
  gets[0]->send(1);
  CHECK(Rig::right(answer, {0, 128 * kKiB}));
  gets[0]->finish();
  gets[1]->finish();
  for (uint64_t at = 128 * kKiB; at < 2 * kMiB; at += 128 * kKiB) {
    Answer next;
    rig.read(*file, {at, at + 128 * kKiB}, next);
    CHECK(Rig::right(next, {at, at + 128 * kKiB}));
  }
  gets = rig.store.open();
  REQUIRE(gets.size() == 2);
  CHECK(gets[1]->range() == ByteRange{16 * kMiB, 20 * kMiB + 100});
  rig.store.finish_all();
  CHECK(rig.store.asked_bytes() == 20 * kMiB + 100);
  rig.disk.run();
  CHECK(rig.cache.file->writes == 21);
  CHECK(rig.completed == 1);
  file->closed();
}

TEST_CASE("every byte is right, cold and warm, with a cache, without one, and with one that refuses") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    Rig rig(kind != 1, 12 * kMiB);
    rig.cache.refuse = kind == 2;
    auto file = rig.open(30 * kMiB + 4097);
    if (kind == 3) {
      rig.cache.open_file({"", "", "dir/key", ""}, file->info().size_bytes);
      rig.cache.file->write_error = Code::kCacheIo;
    }
    rig.read_all(*file);
    CHECK(rig.metrics.gauge("fetch_memory_bytes").value() <= static_cast<int64_t>(12 * kMiB));
    rig.store.finish_all();
    rig.disk.run();
    if (kind == 0) {
      CHECK(rig.store.asked_bytes() == 30 * kMiB + 4097);
      const auto gets = rig.store.gets.size();
      rig.read_all(*file);
      CHECK(rig.store.gets.size() == gets);
      CHECK(rig.cache.file->complete());
      CHECK(file->backing().file != nullptr);
    } else {
      CHECK(file->backing().file == nullptr);
    }
    file->closed();
  }
}

TEST_CASE("many readers of one cold shard cost its bytes once") {
  Rig rig(true);
  auto file = rig.open(16 * kMiB);
  std::vector<Answer> answers(8);
  for (auto& answer : answers) rig.read(*file, {0, 128 * kKiB}, answer);
  for (auto& answer : answers) CHECK(answer.calls == 0);
  rig.store.finish_all();
  for (auto& answer : answers) CHECK(Rig::right(answer, {0, 128 * kKiB}));
  CHECK(rig.store.asked_bytes() == 16 * kMiB);
  file->closed();
}

TEST_CASE("the cache file is looked up when it is needed, not at an open") {
  Rig rig(true);
  {
    auto file = rig.open(100 * kKiB);
    CHECK_FALSE(file->seems_cached());
    CHECK(rig.cache.looked_up == 0);
    rig.read_all(*file);
    CHECK(rig.cache.looked_up == 1);
    CHECK(file->seems_cached());
    file->closed();
  }
  auto again = rig.open(100 * kKiB);
  CHECK(again->seems_cached());
  again->closed();
  CHECK(rig.cache.looked_up == 1);
}

TEST_CASE("an object up to 128 KiB takes so much memory, a larger one a block") {
  for (const uint64_t size : {1 * kKiB, 128 * kKiB, 128 * kKiB + 1}) {
    Rig rig(false);
    auto file = rig.open(size);
    Answer answer;
    rig.read(*file, {0, size}, answer);
    CHECK(rig.metrics.gauge("fetch_memory_bytes").value() == static_cast<int64_t>(fetch::buffers_of(size)));
    CHECK(fetch::buffers_of(size) == (size <= 128 * kKiB ? 128 * kKiB : kMiB));
    rig.store.finish_all();
    CHECK(Rig::right(answer, {0, size}));
    file->closed();
  }
}

TEST_CASE("a sparse read costs what it touches") {
  Rig rig(true);
  auto file = rig.open(64 * kMiB);
  Answer answer;
  const ByteRange range{10 * kMiB + 4096, 10 * kMiB + 4096 + 64 * kKiB};
  rig.read(*file, range, answer);
  rig.store.finish_all();
  CHECK(Rig::right(answer, range));
  CHECK(rig.store.asked_bytes() == 128 * kKiB);
  file->closed();
}

TEST_CASE("demand goes first: connections are kept for it") {
  Rig rig(true, 64 * kMiB, 4);  // two of four are kept
  auto scan = rig.open(40 * kMiB);
  Answer first;
  rig.read(*scan, {0, 4096}, first);
  rig.store.open()[0]->finish();
  CHECK(rig.store.open().size() == 2);
  Answer far;
  rig.read(*scan, {39 * kMiB, 39 * kMiB + 4096}, far);
  auto open = rig.store.open();
  REQUIRE(open.size() == 3);
  CHECK(open[2]->range() == ByteRange{39 * kMiB, 39 * kMiB + 128 * kKiB});
  open[2]->finish();
  CHECK(Rig::right(far, {39 * kMiB, 39 * kMiB + 4096}));
  scan->closed();
}

TEST_CASE("a reader that goes elsewhere: what was predicted is dropped, unless it arrives or is waited for") {
  Rig rig(true, 64 * kMiB, 4);
  auto file = rig.open(100 * kMiB);
  Answer first, second, third;
  rig.read(*file, {0, 4096}, first);
  rig.store.open()[0]->finish();
  auto open = rig.store.open();
  REQUIRE(open.size() == 2);  // [1, 9) and [9, 16) MiB
  open[0]->send(4096);
  SUBCASE("elsewhere") {
    rig.read(*file, {60 * kMiB, 60 * kMiB + 4096}, second);
    CHECK_FALSE(open[0]->cancelled);
    CHECK(open[1]->cancelled);
  }
  SUBCASE("within the window") {
    rig.read(*file, {12 * kMiB, 12 * kMiB + 4096}, second);
    CHECK_FALSE(open[0]->cancelled);
    CHECK_FALSE(open[1]->cancelled);
    CHECK(open[1]->raised);
  }
  SUBCASE("it comes back") {
    rig.read(*file, {60 * kMiB, 60 * kMiB + 4096}, second);
    rig.read(*file, {10 * kMiB, 10 * kMiB + 4096}, third);
    open[1]->end(base::fail(Code::kCancelled, ""));
    rig.store.finish_all();
    CHECK(Rig::right(third, {10 * kMiB, 10 * kMiB + 4096}));
  }
  rig.store.finish_all();
  CHECK(second.bytes.size() == 4096);
  file->closed();
}

TEST_CASE("what a reader wants next goes before what was wanted earlier, each byte once") {
  Rig rig(true, 128 * kMiB, 4);  // two read ahead at once
  auto file = rig.open(100 * kMiB);
  const auto read_128k = [&](uint64_t at) {
    Answer answer;
    rig.read(*file, {at, at + 128 * kKiB}, answer);
    while (answer.calls == 0) rig.store.open().back()->finish();
    CHECK(Rig::right(answer, {at, at + 128 * kKiB}));
  };
  for (uint64_t at = 0; at < 2 * kMiB; at += 128 * kKiB) read_128k(at);
  const size_t before = rig.store.gets.size();
  file->opened(2);
  for (uint64_t at = 0; at < 512 * kKiB; at += 128 * kKiB) read_128k(80 * kMiB + at);
  rig.store.finish_all();
  std::vector<uint64_t> begins;
  for (size_t i = before; i < rig.store.gets.size(); ++i) begins.push_back(rig.store.gets[i]->range().begin / kMiB);
  CHECK(begins == std::vector<uint64_t>{80, 81, 32, 40, 48, 56, 64, 72, 82, 90, 98});
  CHECK(rig.store.asked_bytes() == 100 * kMiB);
  file->closed();
  file->closed();
}

TEST_CASE("a read that waits for a read-ahead part makes it urgent") {
  Rig rig(true);
  auto file = rig.open(16 * kMiB);
  Answer first, second;
  rig.read(*file, {0, 4096}, first);
  rig.read(*file, {4 * kMiB, 4 * kMiB + 4096}, second);
  auto open = rig.store.open();
  REQUIRE(open.size() == 3);
  CHECK(open[1]->raised);
  CHECK_FALSE(open[2]->raised);
  rig.store.finish_all();
  CHECK(Rig::right(second, {4 * kMiB, 4 * kMiB + 4096}));
  file->closed();
}

TEST_CASE("a cancelled read is answered at once, once") {
  Rig rig(true);
  auto file = rig.open(kMiB);
  Answer answer;
  auto parked = rig.read(*file, {0, 4096}, answer);
  parked->cancel();
  CHECK(answer.calls == 1);
  CHECK(answer.error == Code::kCancelled);
  parked->cancel();
  rig.store.finish_all();
  CHECK(answer.calls == 1);
  file->closed();
}

TEST_CASE("a part that fails: read-ahead is asked for again on demand, demand tells the reader") {
  Rig rig(true);
  auto file = rig.open(9 * kMiB);
  Answer first, second;
  rig.read(*file, {0, 4096}, first);
  rig.read(*file, {2 * kMiB, 2 * kMiB + 4096}, second);
  auto open = rig.store.open();
  REQUIRE(open.size() == 2);
  open[1]->end(base::fail(Code::kTransient, "503"));
  CHECK(second.calls == 0);
  open = rig.store.open();
  REQUIRE(open.size() == 2);
  CHECK(open[1]->range() == ByteRange{2 * kMiB, 2 * kMiB + 4096});
  open[1]->end(base::fail(Code::kTransient, "503"));
  CHECK(second.error == Code::kTransient);
  CHECK(first.calls == 0);
  open[0]->finish();
  CHECK(Rig::right(first, {0, 4096}));
  file->closed();
}

TEST_CASE("a read that begins and ends within a page gets the whole pages when it has to ask again") {
  Rig rig(true);
  auto file = rig.open(9 * kMiB);
  Answer first, second;
  rig.read(*file, {0, 4096}, first);
  rig.read(*file, {2 * kMiB + 100, 2 * kMiB + 5000}, second);
  auto open = rig.store.open();
  REQUIRE(open.size() == 2);
  open[1]->end(base::fail(Code::kTransient, "503"));
  open = rig.store.open();
  REQUIRE(open.size() == 2);
  CHECK(open[1]->range() == ByteRange{2 * kMiB, 2 * kMiB + 8192});
  open[1]->finish();
  CHECK(Rig::right(second, {2 * kMiB + 100, 2 * kMiB + 5000}));
  open[0]->finish();
  file->closed();
}

TEST_CASE("a changed or deleted object: ESTALE for what is missing, the rest goes on, told once") {
  for (const Code code : {Code::kChanged, Code::kNotFound}) {
    Rig rig(true);
    auto file = rig.open(20 * kMiB);
    Answer first, second, third, again;
    rig.read(*file, {0, 4096}, first);
    rig.store.open()[0]->finish();
    rig.disk.run();
    rig.read(*file, {5 * kMiB, 5 * kMiB + 4096}, second);
    for (const auto& get : rig.store.open()) get->end(base::fail(code, "412"));
    CHECK(second.error == Code::kChanged);
    CHECK(rig.changed == 1);
    rig.read(*file, {10 * kMiB, 10 * kMiB + 4096}, third);
    CHECK(third.error == Code::kChanged);
    rig.read(*file, {8192, 12288}, again);
    CHECK(Rig::right(again, {8192, 12288}));
    CHECK(rig.store.open().empty());
    file->closed();
  }
}

TEST_CASE("a version that seemed to be gone is asked for again at the next open") {
  Rig rig(true);
  auto file = rig.open(kMiB);
  Answer first, second;
  rig.read(*file, {0, 4096}, first);
  rig.store.open()[0]->end(base::fail(Code::kChanged, "another ETag"));
  CHECK(first.error == Code::kChanged);
  file->closed();
  file = rig.open(kMiB);
  rig.read(*file, {0, 4096}, second);
  REQUIRE(rig.store.open().size() == 1);
  rig.store.finish_all();
  CHECK(Rig::right(second, {0, 4096}));
  file->closed();
}

TEST_CASE("reads that span blocks end, however many wait for however little memory") {
  Rig rig(false, 4 * kMiB);
  auto file = rig.open(64 * kMiB);
  std::vector<Answer> answers(12);
  for (uint64_t i = 0; i < answers.size(); ++i) {
    const uint64_t begin = (4 * i + 3) * kMiB + 512 * kKiB + i % 3 * 1000;  // O_DIRECT asks for any bytes
    rig.read(*file, {begin, begin + kMiB}, answers[i]);
  }
  const auto waiting = [&] {
    return std::any_of(answers.begin(), answers.end(), [](const Answer& answer) { return answer.calls == 0; });
  };
  while (waiting()) {  // what was dropped is wanted again by the timer
    for (const auto& get : rig.store.open()) get->finish();
    std::this_thread::yield();
  }
  for (uint64_t i = 0; i < answers.size(); ++i) {
    const uint64_t begin = (4 * i + 3) * kMiB + 512 * kKiB + i % 3 * 1000;  // O_DIRECT asks for any bytes
    CHECK(Rig::right(answers[i], {begin, begin + kMiB}));
  }
  rig.store.finish_all();
  file->closed();
}

TEST_CASE("a bad block of the cache is fetched again; the reader never sees it") {
  Rig rig(true);
  auto file = rig.open(3 * kMiB);
  rig.read_all(*file);
  rig.store.finish_all();
  rig.disk.run();
  REQUIRE(rig.cache.file->complete());
  for (const Code code : {Code::kIntegrity, Code::kCacheIo}) {
    rig.cache.file->read_error = code;
    Answer answer;
    const uint64_t at = code == Code::kIntegrity ? kMiB : 2 * kMiB;  // a block that is not in memory
    rig.read(*file, {at, at + 4096}, answer);
    CHECK(answer.calls == 0);
    rig.store.finish_all();
    CHECK(Rig::right(answer, {at, at + 4096}));
    rig.disk.run();
  }
  CHECK(rig.counter("fetch_cache_failures") == 2);
  file->closed();
}

TEST_CASE("blocks that another process fills are waited for, not fetched") {
  Rig rig(true);
  auto file = rig.open(2 * kMiB);
  rig.cache.open_file({"", "", "dir/key", ""}, 2 * kMiB);
  rig.cache.file->busy = {0, 1};
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  CHECK(rig.store.open().empty());
  rig.cache.file->fill_elsewhere(0);
  rig.cache.file->fill_elsewhere(1);
  while (answer.calls == 0) {  // the poll comes from the timer's thread
    rig.disk.run();
    std::this_thread::yield();
  }
  CHECK(Rig::right(answer, {0, 4096}));
  CHECK(rig.store.gets.empty());
  file->closed();
}

TEST_CASE("a block that another process gave up is fetched here") {
  Rig rig(true);
  auto file = rig.open(kMiB);
  rig.cache.open_file({"", "", "dir/key", ""}, kMiB);
  rig.cache.file->busy = {0};
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  CHECK(rig.store.open().empty());
  {
    std::lock_guard lock(rig.cache.file->mutex);
    rig.cache.file->busy.clear();
  }
  while (rig.store.open().empty()) {
    rig.disk.run();
    std::this_thread::yield();
  }
  rig.store.finish_all();
  CHECK(Rig::right(answer, {0, 4096}));
  file->closed();
}

TEST_CASE("shut-down answers what is parked and cancels what is under way") {
  Rig rig(true);
  auto file = rig.open(64 * kMiB);
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  rig.store.open()[0]->send(1000);
  rig.shut_down();
  CHECK(answer.calls == 1);
  CHECK(answer.error == Code::kCancelled);
  file->closed();
}

TEST_CASE("without a cache, closing the last handle ends what was only predicted") {
  Rig rig(false);
  auto file = rig.open(32 * kMiB);
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  file->closed();
  auto open = rig.store.open();
  REQUIRE(open.size() == 3);
  CHECK_FALSE(open[0]->cancelled);
  for (size_t i = 1; i < open.size(); ++i)
    while (!open[i]->cancelled) std::this_thread::yield();  // after the grace for opening it again
  open[0]->finish();
  CHECK(Rig::right(answer, {0, 4096}));
}

TEST_CASE("memory is a hard limit for many files at once, and all is read") {
  Rig rig(true, 8 * kMiB);
  std::vector<std::shared_ptr<fetch::SourceFile>> files;
  std::vector<Answer> answers(32);
  rig.cache.refuse = true;
  for (int i = 0; i < 32; ++i) {
    files.push_back(rig.fetcher->open({"key" + std::to_string(i), 4 * kMiB, "\"e\"", {}, "", false}));
    files.back()->opened(1);
    rig.read(*files.back(), {0, 64 * kKiB}, answers[i]);
    CHECK(rig.metrics.gauge("fetch_memory_bytes").value() <= static_cast<int64_t>(8 * kMiB));
  }
  rig.store.finish_all();
  for (auto& answer : answers) CHECK(Rig::right(answer, {0, 64 * kKiB}));
  for (auto& file : files) file->closed();
}

TEST_CASE("a file that nobody reads keeps its cache file for a while, and lets go when the cache has no space") {
  Rig rig(true);
  const auto open_and_read = [&](const std::string& key) {
    auto file = rig.fetcher->open({key, kMiB, "\"e\"", {}, "", false});
    file->opened(1);
    Answer answer;
    rig.read(*file, {0, 4096}, answer);
    rig.store.finish_all();
    rig.disk.run();
    CHECK(Rig::right(answer, {0, 4096}));
    file->closed();
  };
  open_and_read("first");
  std::weak_ptr<FakeCacheFile> first = rig.cache.files["first"];
  rig.cache.files.erase("first");
  rig.cache.file.reset();
  CHECK_FALSE(first.expired());
  SUBCASE("no space") {
    rig.cache.open_file({"", "", "second", ""}, kMiB);
    rig.cache.file->refuse = true;
    open_and_read("second");
    CHECK(first.expired());
  }
  SUBCASE("others were read since") {
    for (int i = 0; i < 16; ++i) open_and_read("other" + std::to_string(i));
    CHECK(first.expired());
  }
}

TEST_CASE("reads at and past the end") {
  Rig rig(true);
  auto file = rig.open(5000);
  Answer tail, past;
  rig.read(*file, {4096, 8192}, tail);
  rig.store.finish_all();
  CHECK(Rig::right(tail, {4096, 5000}));
  CHECK(rig.read(*file, {5000, 9000}, past) == nullptr);
  CHECK(past.calls == 1);
  CHECK(past.bytes.empty());
  file->closed();
}
