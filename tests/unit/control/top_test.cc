#include "control/top.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/metrics.h"
#include "control/stats.h"

namespace shardfs::control {
namespace {

std::vector<std::string> words_of_line(const std::string& table, int number) {
  std::istringstream lines(table);
  std::string line;
  for (int i = 0; i <= number; ++i) std::getline(lines, line);
  std::istringstream words(line);
  std::vector<std::string> result;
  for (std::string word; words >> word;) result.push_back(word);
  return result;
}

TEST_CASE("a sample is what the stats say") {
  base::Metrics metrics;
  metrics.counter("fs_read_bytes").add(5000000);
  metrics.counter("fs_passthrough_open_bytes").add(7);
  metrics.counter("fetch_received_bytes", "demand").add(3);
  metrics.counter("fetch_received_bytes", "readahead").add(4);
  metrics.counter("fs_errors", "EIO").add(2);
  metrics.counter("fs_errors", "ENOENT").add(100);
  metrics.gauge("fetch_parked_reads").set(9);
  MountFacts facts;
  facts.source = "s3://bucket";
  facts.mountpoint = "/data";
  facts.process_id = 12;
  const auto sample = top_sample(stats_json(facts, metrics));
  REQUIRE(sample);
  CHECK(sample->mountpoint == "/data");
  CHECK(sample->source == "s3://bucket");
  CHECK(sample->process_id == 12);
  CHECK(sample->read_bytes == 5000000);
  CHECK(sample->passthrough_bytes == 7);
  CHECK(sample->fetched_bytes == 7);
  CHECK(sample->demand_bytes == 3);
  CHECK(sample->parked_reads == 9);
  CHECK(sample->errors == 2);
  CHECK_FALSE(top_sample("{}"));
  CHECK_FALSE(top_sample("nonsense"));
}

TEST_CASE("rates are of what grew between two samples of one process") {
  TopSample before;
  before.mountpoint = "/data";
  before.source = "s3://bucket";
  before.process_id = 1;
  before.read_bytes = 1000000;
  TopSample now = before;
  now.read_bytes = 21000000;
  now.passthrough_bytes = 20000000;
  now.fetched_bytes = 8000000;
  now.demand_bytes = 4000000;
  now.stalled_s = 3;
  now.errors = 5;
  const auto line = words_of_line(top_table({before}, {now}, 2, 0), 1);
  CHECK(line == std::vector<std::string>{"/data", "10.0", "10.0", "4.0", "90", "1.5", "0", "0", "0", "0", "5", "off",
                                         "s3://bucket"});
  // Mounted again meanwhile: nothing to compare with.
  now.process_id = 2;
  const auto fresh = words_of_line(top_table({before}, {now}, 2, 0), 1);
  CHECK(fresh[1] == "-");
  CHECK(fresh[4] == "-");
}

TEST_CASE("lines are cut at the width, and a table without mounts is its heading") {
  CHECK(words_of_line(top_table({}, {}, 1, 0), 0).front() == "MOUNTPOINT");
  CHECK(top_table({}, {}, 1, 20).size() == 21);
}

}  // namespace
}  // namespace shardfs::control
