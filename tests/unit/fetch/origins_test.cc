// Hits by cause, and what was fetched for nothing.
#include "fetch/origins.h"

#include <doctest/doctest.h>

#include "rig.h"

using namespace shardfs;
using namespace shardfs::test;
using fetch::Cause;

TEST_CASE("what was predicted is used when its block is read, once") {
  base::Metrics metrics;
  fetch::OriginMetrics counters(metrics);
  const auto value = [&](const char* name, const char* label) { return metrics.counter(name, label).value(); };
  fetch::Origins origins(3 * kMiB, counters);
  for (uint32_t block = 0; block < 3; ++block) origins.begin(block, block == 0 ? Cause::kDemand : Cause::kReadahead);
  origins.received(0, Cause::kDemand, 128 * kKiB);
  origins.read(0, 128 * kKiB);
  origins.received(0, Cause::kReadahead, kMiB - 128 * kKiB);  // the reader is there
  CHECK(value("fetch_used_bytes", "readahead") == kMiB - 128 * kKiB);
  origins.received(1, Cause::kReadahead, kMiB);
  origins.received(2, Cause::kReadahead, kMiB);
  CHECK(value("fetch_used_bytes", "readahead") == kMiB - 128 * kKiB);
  REQUIRE(origins.unread());
  CHECK(origins.unread()->bytes == 2 * kMiB);
  origins.read(1, 4096);
  origins.read(1, 4096);
  CHECK(value("fetch_used_bytes", "readahead") == 2 * kMiB - 128 * kKiB);
  CHECK(value("fetch_read_bytes", "readahead") == 8192);
  CHECK(value("fetch_read_bytes", "demand") == 128 * kKiB);
  origins.read_all();
  CHECK(value("fetch_used_bytes", "readahead") == 3 * kMiB - 128 * kKiB);
  CHECK_FALSE(origins.unread());
  origins.read(1, kMiB);  // again
  CHECK(value("fetch_read_bytes", "cache") == kMiB);
}

TEST_CASE("hits by cause: first fetched by whom, or resident before") {
  Rig rig(true);
  auto file = rig.find("dir/key", 4 * kMiB);
  file->prefetch({0, 2 * kMiB}, Cause::kNextShard);
  rig.store.finish_all();
  file->opened(1);
  rig.read_all(*file);
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.counter("fetch_read_bytes", "next_shard") == 2 * kMiB);
  CHECK(rig.counter("fetch_read_bytes", "cache") == 0);
  CHECK(rig.counter("fetch_used_bytes", "next_shard") == 2 * kMiB);
  CHECK(rig.counter("fetch_received_bytes", "next_shard") == 2 * kMiB);
  CHECK(rig.counter("fetch_used_bytes", "readahead") == rig.counter("fetch_received_bytes", "readahead"));
  rig.read_all(*file);  // warm
  CHECK(rig.counter("fetch_read_bytes", "cache") == 4 * kMiB);
  file->closed();
}

TEST_CASE("a passthrough open reads the file as a whole") {
  Rig rig(true);
  auto file = rig.find("dir/key", 3 * kMiB);
  file->prefetch({0, 3 * kMiB}, Cause::kWarm);
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.counter("fetch_used_bytes", "warm") == 0);
  REQUIRE(file->backing().file);
  CHECK(rig.counter("fetch_used_bytes", "warm") == 3 * kMiB);
}

TEST_CASE("many small files ahead of their reader: those whose object was forgotten count, too") {
  Rig rig(true);
  const auto name = [](int i) { return "f" + std::to_string(i); };
  for (int i = 0; i < 300; ++i) rig.find(name(i), 4096)->prefetch({0, 4096}, Cause::kSmallFiles);
  while (!rig.store.open().empty()) {
    rig.store.finish_all();
    rig.disk.run();
  }
  CHECK(rig.counter("fetch_received_bytes", "small_files") == 300 * 4096);
  for (int i = 0; i < 299; ++i) {
    auto file = rig.open(4096, name(i));
    Answer answer;
    rig.read(*file, {0, 4096}, answer);
    CHECK(Rig::right(answer, {0, 4096}));
    file->closed();
  }
  CHECK(rig.counter("fetch_used_bytes", "small_files") == 299 * 4096);
  CHECK(rig.counter("fetch_read_bytes", "small_files") == 299 * 4096);
}

TEST_CASE("stall time has reasons that add up") {
  Rig rig(true);
  auto file = rig.open(4096);
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  rig.clock.advance(std::chrono::milliseconds(30));
  rig.store.open()[0]->send(100);
  rig.clock.advance(std::chrono::milliseconds(5));
  rig.store.finish_all();
  CHECK(rig.counter("fetch_stalled_nanoseconds", "first_byte") == 30000000);
  CHECK(rig.counter("fetch_stalled_nanoseconds", "transfer") == 5000000);
  CHECK(rig.metrics.histogram("fetch_stall_seconds").sum() == std::chrono::milliseconds(35));
  file->closed();
}

TEST_CASE("a file tells what it is doing") {
  Rig rig(true);
  auto file = rig.open(20 * kMiB);
  Answer answer;
  rig.read(*file, {0, 4096}, answer);
  const size_t parts = rig.store.open().size();
  REQUIRE(rig.fetcher->in_use(10).size() == 1);
  const auto state = rig.fetcher->in_use(10)[0];
  CHECK(state.key == "dir/key");
  CHECK(state.size_bytes == 20 * kMiB);
  CHECK(state.open_handles == 1);
  CHECK(state.parts == parts);
  CHECK(state.parked_reads == 1);
  CHECK(state.resident_bytes == 0);
  REQUIRE(state.streams.size() == 1);
  CHECK(state.streams[0].next == 4096);
  CHECK(file->state().find("reading: ") == 0);
  CHECK(file->state().find(", 1 stream, next at 4096") != std::string::npos);
  CHECK(file->state().find(" 0 of 20 blocks, ") != std::string::npos);
  CHECK(file->state().find(" under way, 1 read parked") != std::string::npos);
  CHECK(rig.fetcher->in_use(0).empty());
  rig.store.finish_all();
  rig.disk.run();
  CHECK(rig.fetcher->in_use(10)[0].resident_bytes > 0);
  file->closed();
  rig.store.finish_all();
  CHECK(rig.fetcher->in_use(10).empty());
}
