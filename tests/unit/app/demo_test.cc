#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"
#include "app/child_process.h"
#include "app/demo_report.h"
#include "app/demo_shards.h"

namespace shardfs::app {
namespace {

using nlohmann::json;

constexpr const char* kEpoch =
    R"([{"samples": 100, "bytes": 2000000, "wall_s": 2.0, "time_to_first_batch_s": 0.1, "mean_input_wait_s": 0.02,
         "input_wait_fraction": 0.5}])";

TEST_CASE("an epoch that a reader wrote") {
  auto epoch = parse_epoch(kEpoch, "x.json");
  REQUIRE(epoch.has_value());
  CHECK(epoch->samples_per_s() == doctest::Approx(50));
  CHECK(epoch->mb_per_s() == doctest::Approx(1));
  CHECK(epoch->hit_ratio() == 1);
  epoch->fetched_bytes = 500000;
  CHECK(epoch->hit_ratio() == doctest::Approx(0.75));
  epoch->fetched_bytes = 5000000;
  CHECK(epoch->hit_ratio() == 0);
  for (const char* bad : {"", "{}", "[]", "[3]", R"([{"samples": 100}])", R"([{"samples": "many"}])"}) {
    CHECK_FALSE_MESSAGE(parse_epoch(bad, "x.json").has_value(), bad);
  }
}

TEST_CASE("the demo's JSON has each field of each epoch") {
  DemoResult result;
  result.cold = result.warm = result.local = parse_epoch(kEpoch, "x.json").value();
  result.cold.gets = 7;
  const json all = json::parse(demo_json(result));
  for (const char* epoch : {"cold", "warm", "local"}) {
    for (const char* field : {"samples_per_s", "mb_per_s", "wall_s", "time_to_first_batch_s", "mean_input_wait_s",
                              "input_wait_fraction", "gets", "fetched_bytes", "hit_ratio"}) {
      const std::string name = std::string(epoch) + "." + field;
      CHECK_MESSAGE(all[epoch][field].is_number(), name);
    }
  }
  CHECK(all["cold"]["gets"] == 7);
  CHECK(demo_table(result).find("local copy") != std::string::npos);
}

TEST_CASE("shards are made as tar files of the size asked for, and read in whole") {
  TemporaryFolder folder;
  const std::atomic<bool> stop{false};
  double last = 0;
  REQUIRE(make_shards(
              folder.path(), 3, 50, 5 << 20, [&](double fraction) { last = fraction; }, stop)
              .has_value());
  CHECK(last == 1);
  uint64_t total = 0;
  unsigned count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    total += entry.file_size();
    ++count;
    CHECK(entry.file_size() % 512 == 0);
  }
  CHECK(count == 3);
  CHECK(total > (49u << 20) / 10);
  CHECK(total < (52u << 20) / 10);
  const auto epoch = read_shards(folder.path(), 50, stop);
  REQUIRE(epoch.has_value());
  CHECK(epoch->bytes == total);
  CHECK(epoch->samples == 50);
  CHECK(epoch->wall_s > 0);
  CHECK(epoch->input_wait_fraction <= 1);
}

TEST_CASE("a tar program reads the shards") {
  TemporaryFolder folder;
  const std::atomic<bool> stop{false};
  REQUIRE(make_shards(
              folder.path(), 2, 5, 100000, [](double) {}, stop)
              .has_value());
  auto child = ChildProcess::start({"tar", "tf", folder.path() + "/shard-000001.tar"}, {"PATH=/usr/bin:/bin"}, true);
  REQUIRE(child.has_value());
  std::string names;
  const auto code = child->wait(
      -1, [&](const std::string& line) { names += line + ","; }, [] {});
  CHECK(code.value() == 0);
  CHECK(names == "00000002.bin,00000003.bin,00000004.bin,");
}

TEST_CASE("making and reading stop when they are told to") {
  TemporaryFolder folder;
  const std::atomic<bool> stop{true};
  CHECK(make_shards(
            folder.path(), 1, 5, 100000, [](double) {}, stop)
            .error()
            .code == base::Code::kCancelled);
  CHECK(read_shards(folder.path(), 5, stop).error().code == base::Code::kCancelled);
  CHECK(read_shards(folder.path() + "/missing", 5, stop).error().code == base::Code::kIo);
}

TEST_CASE("a program's exit code, its absence, and its end when we stop") {
  const auto nothing = [](const std::string&) {};
  auto fails = ChildProcess::start({"/bin/sh", "-c", "exit 3"}, {});
  REQUIRE(fails.has_value());
  CHECK(fails->wait(-1, nothing, [] {}).value() == 3);
  CHECK(ChildProcess::start({"/nonexistent/program"}, {}).error().code == base::Code::kNotFound);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "x", 1) == 1);
  auto waits = ChildProcess::start({"/bin/sh", "-c", "sleep 1000"}, {"PATH=/usr/bin:/bin"});
  REQUIRE(waits.has_value());
  CHECK(waits->wait(ends[0], nothing, [] {}).error().code == base::Code::kCancelled);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace shardfs::app
