#include "readahead/shard_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "order_run.h"

namespace shardfs::readahead {
namespace {

using Names = OrderRun::Names;

Names shards(int count) { return OrderRun::numbered("shard-{:06}.tar", 0, count); }

Names names_of(const std::vector<ShardOrder::Guess>& guesses) {
  Names names;
  for (const auto& guess : guesses) names.push_back(guess.name);
  return names;
}

TEST_CASE("numbered: one reader in order is foretold from its first open on") {
  OrderRun run(shards(100));
  const Names names = shards(100);
  for (int i = 0; i < 99; ++i) CHECK(run.open(names[i], 7) == Names{names[i + 1]});
  CHECK(run.open(names[99], 7).empty());
  CHECK(run.foretold == 99);
  // And in the epochs after it, by a new process.
  run.end_workers();
  run.epoch(names, 1);
  CHECK(run.foretold == 2 * 99);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("numbered: the front of four processes is common") {
  OrderRun run(shards(100));
  const Names names = shards(100);
  const auto from = [&](int begin, int end) { return Names(names.begin() + begin, names.begin() + end); };
  CHECK(run.open(names[0], 1) == from(1, 2));
  CHECK(run.open(names[1], 2) == from(2, 4));
  CHECK(run.open(names[2], 3) == from(3, 6));
  Names fourth = run.open(names[3], 4);
  std::sort(fourth.begin(), fourth.end());
  CHECK(fourth == from(4, 8));
  for (int i = 4; i < 92; ++i) {
    Names guess = run.open(names[i], 1 + i % 4, 4);
    std::sort(guess.begin(), guess.end());
    CHECK(guess == from(i + 1, i + 5));
  }
}

TEST_CASE("numbered: names as people number them") {
  const std::pair<std::string, std::pair<int, int>> cases[] = {
      {"{}.tar", {1, 30}},                     // 9, 10
      {"s-{:03}.tar", {95, 110}},              // 099, 100
      {"s-{:02}.tar", {90, 110}},              // 99, 100
      {"train-{:05}-of-00128.tar", {0, 128}},  // the first number varies
      {"run-3-part-{}.parquet", {0, 20}},      // the second one does
      {"part-{:05}-8c6f-4d1e-c000.snappy.parquet", {0, 20}},
      {"x.tfrecord-{:05}-of-00020", {0, 20}},
      {"shard.{:05}.mds", {0, 20}},
  };
  for (const auto& entry : cases) {
    const auto& [begin, end] = entry.second;
    const std::string& format = entry.first;
    CAPTURE(format);
    const Names names = OrderRun::numbered(format, begin, end);
    OrderRun run(OrderRun::shuffled(names, 1));
    for (const auto& name : names) run.open(name, 3);
    CHECK(run.foretold == names.size() - 1);
    CHECK(run.wrong_guesses() == 0);
  }
}

TEST_CASE("numbered: names without numbers are read in the order of the listing") {
  const Names names = {"alpha.tar", "beta.tar", "delta.tar", "epsilon.tar", "gamma.tar"};
  OrderRun run(names);
  for (const auto& name : names) run.open(name, 3);
  CHECK(run.foretold == names.size() - 1);
}

TEST_CASE("numbered: what lies between the shards is not in the way") {
  Names all = shards(50);
  for (const auto& name : OrderRun::numbered("shard-{:06}.json", 0, 50)) all.push_back(name);
  all.push_back("index.json");
  all.push_back("README");
  OrderRun run(all);
  CHECK(run.open("index.json", 1).empty());
  for (const auto& name : shards(50)) run.open(name, 1);
  CHECK(run.foretold == 49);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("numbered: a job that starts in the middle is foretold from its third open on") {
  OrderRun run(shards(100));
  const Names names = shards(100);
  CHECK(run.open(names[40], 1).empty());
  CHECK(run.open(names[41], 1) == Names{names[42]});
  for (int i = 42; i < 100; ++i) run.open(names[i], 1);
  CHECK(run.foretold == 58);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("numbered: a second set in the directory and a stray open do not lose the first") {
  Names all = shards(60);
  const Names val = OrderRun::numbered("val-{:03}.tar", 0, 6);
  all.insert(all.end(), val.begin(), val.end());
  OrderRun run(all);
  const Names train = shards(60);
  for (int i = 0; i < 60; ++i) {
    run.open(train[i], 1);
    if (i % 10 == 5) run.open(val[i / 10], 2);
  }
  CHECK(run.foretold >= 59 + 5 - 2);
  CHECK(run.wrong_guesses() <= 1);
}

TEST_CASE("stride: a process that takes every n-th is followed alone") {
  // One node of four: its single reader opens 2, 6, 10, ...
  OrderRun run(shards(200));
  const Names names = shards(200);
  Names list;
  for (int i = 2; i < 200; i += 4) list.push_back(names[i]);
  for (const auto& name : list) run.open(name, 9);
  CHECK(run.foretold >= list.size() - 3);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("stride: several processes that show the same one are followed after one step") {
  // Two workers of one node of four: 0, 8, 16 and 4, 12, 20.
  OrderRun run(shards(200));
  const Names names = shards(200);
  CHECK(run.open(names[0], 1).size() == 1);  // may be an order: it is the first
  run.open(names[4], 2);
  run.open(names[8], 1);
  const Names guess = run.open(names[12], 2);
  CHECK(guess == Names{names[20]});
  CHECK(run.open(names[16], 1) == Names{names[24]});
}

TEST_CASE("DataLoader workers, forked anew each epoch, in order") {
  for (const uint32_t workers : {1u, 2u, 4u, 8u}) {
    CAPTURE(workers);
    OrderRun run(shards(64));
    run.epoch(shards(64), workers);
    CHECK(run.foretold >= 64 - 2 * workers);
    CHECK(run.wrong_guesses() == 0);
    for (int epoch = 0; epoch < 3; ++epoch) {
      run.forget_counts();
      run.epoch(shards(64), workers);
      CHECK(run.foretold >= 62);  // all but the first, and one that is opened beside it
      CHECK(run.wrong_guesses() == 0);
    }
  }
}

TEST_CASE("DataLoader workers that open out of turn") {
  // Four workers with stride four; each is now and then a shard ahead of its turn.
  OrderRun run(shards(100));
  const Names names = shards(100);
  std::vector<int> turn = {2, 0, 1, 3};
  for (int step = 0; step < 25; ++step) {
    for (const int worker : turn) run.open(names[4 * step + worker], 100 + worker);
    std::rotate(turn.begin(), turn.begin() + 1, turn.end());
  }
  CHECK(run.foretold >= 90);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("processes without a number (another pid namespace) are foretold by their common front") {
  OrderRun run(shards(64));
  const Names names = shards(64);
  for (int i = 0; i < 64; ++i) {
    if (i >= 4) run.order.on_close(names[i - 4]);
    const auto guesses = run.order.on_open(names[i], 0, run.order.readers() + 1);
    if (i >= 3 && i < 60) CHECK(names_of(guesses) == Names(names.begin() + i + 1, names.begin() + i + 5));
  }
}

TEST_CASE("last epoch: WebDataset's fixed shuffle is foretold in the second epoch, whoever the workers are") {
  for (const uint32_t workers : {1u, 2u, 4u}) {
    CAPTURE(workers);
    OrderRun run(shards(100));
    const Names list = OrderRun::shuffled(shards(100), 11);
    run.epoch(list, workers);
    CHECK(run.wrong_guesses() <= 3);
    for (int epoch = 0; epoch < 3; ++epoch) {
      run.forget_counts();
      run.epoch(list, workers);
      CHECK(run.foretold >= 100 - 3 * workers);
      CHECK(run.wrong_guesses() <= 1);
    }
  }
}

TEST_CASE("last epoch: also where all processes are one number") {
  OrderRun run(shards(100));
  const Names list = OrderRun::shuffled(shards(100), 5);
  for (int epoch = 0; epoch < 2; ++epoch) {
    run.forget_counts();
    for (size_t i = 0; i < list.size(); ++i) {
      if (i >= 4) run.order.on_close(list[i - 4]);
      for (const auto& guess : run.order.on_open(list[i], 0, 4)) run.waiting.emplace(guess.name, 0);
      run.foretold += run.waiting.erase(list[i]);
    }
    for (size_t i = 96; i < 100; ++i) run.order.on_close(list[i]);
  }
  CHECK(run.foretold >= 90);
  CHECK(run.waiting.size() <= 1);
}

TEST_CASE("a shuffled order silences numbers and strides") {
  size_t worst = 0;
  size_t all = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    for (const uint32_t workers : {1u, 4u}) {
      OrderRun run(shards(100));
      run.epoch(OrderRun::shuffled(shards(100), seed), workers);
      worst = std::max(worst, run.wrong_guesses());
      all += run.wrong_guesses();
    }
  }
  CHECK(worst <= 4);
  CHECK(all <= 100);  // one in each hundred opens
}

TEST_CASE("detshuffle: another order each epoch says nothing after the first try") {
  for (const uint32_t workers : {1u, 4u}) {
    CAPTURE(workers);
    OrderRun run(shards(100));
    for (unsigned epoch = 0; epoch < 6; ++epoch) run.epoch(OrderRun::shuffled(shards(100), 70 + epoch), workers);
    CHECK(run.wrong_guesses() <= 6);
  }
}

TEST_CASE("resampled: random with repeats says nothing after the first try") {
  OrderRun run(shards(100));
  std::mt19937 random(3);
  const Names names = shards(100);
  for (int i = 0; i < 1000; ++i) run.open(names[random() % 100], 1 + i % 4);
  CHECK(run.wrong_guesses() <= 6);
}

TEST_CASE("MDS: a shard opened for every sample is no step, and nothing is foretold of a random walk") {
  OrderRun run(OrderRun::numbered("shard.{:05}.mds", 0, 40));
  const Names names = OrderRun::numbered("shard.{:05}.mds", 0, 40);
  std::mt19937 random(3);
  for (int i = 0; i < 4000; ++i) {
    const std::string& name = names[random() % 40];
    for (const auto& guess : run.order.on_open(name, 1 + i % 2, 2)) {
      CHECK(guess.name != name);
      ++run.guesses;
    }
    run.order.on_close(name);
  }
  CHECK(run.guesses <= 20);  // of 4,000
}

TEST_CASE("many opens of one shard by one process, shard after shard (LitData) are one step each") {
  OrderRun run(OrderRun::numbered("chunk-0-{}.bin", 0, 30));
  const Names names = OrderRun::numbered("chunk-0-{}.bin", 0, 30);
  for (int i = 0; i < 30; ++i) {
    for (int again = 0; again < 10; ++again) {
      const auto guesses = names_of(run.order.on_open(names[i], 4, 1));
      CHECK(guesses == (again == 0 && i < 29 ? Names{names[i + 1]} : Names{}));
      run.order.on_close(names[i]);
    }
  }
}

TEST_CASE("eight processes on one shard are one front") {
  OrderRun run(shards(50));
  const Names names = shards(50);
  for (int i = 0; i < 40; ++i) {
    for (uint32_t process = 1; process <= 8; ++process) {
      const auto guesses = run.open(names[i], process, 1);
      if (process == 8) CHECK(guesses == Names{names[i + 1]});
    }
  }
  CHECK(run.wrong_guesses() <= 1);
}

TEST_CASE("a source that failed comes back when it would have been right") {
  OrderRun run(shards(100));
  run.epoch(OrderRun::shuffled(shards(100), 2), 1);
  run.epoch(OrderRun::shuffled(shards(100), 3), 1);
  run.forget_counts();
  run.epoch(shards(100), 1);
  CHECK(run.foretold >= 85);
  run.forget_counts();
  run.epoch(OrderRun::shuffled(shards(100), 4), 1);
  CHECK(run.wrong_guesses() <= 12);
}

TEST_CASE("nothing that is open is guessed, and never more than asked for") {
  OrderRun run(shards(30));
  const Names names = shards(30);
  std::mt19937 random(8);
  for (int i = 0; i < 3000; ++i) {
    const size_t count = random() % 6;
    const std::string name = names[i % 3 == 0 ? random() % 30 : static_cast<size_t>(i / 3 % 30)];
    const auto guesses = run.order.on_open(name, random() % 5, count);
    CHECK(guesses.size() <= count);
    std::set<std::string> different;
    for (const auto& guess : guesses) {
      CHECK(guess.name != name);
      different.insert(guess.name);
      for (const auto& [process, held] : run.holds) CHECK(guess.name != held);
    }
    CHECK(different.size() == guesses.size());
    const uint32_t slot = random() % 4;
    if (const auto held = run.holds.find(slot); held != run.holds.end()) run.order.on_close(held->second);
    run.holds[slot] = name;
  }
  run.end_workers();
  CHECK(run.order.readers() == 0);
}

TEST_CASE("names that vanish and appear: what was learned of the others stays") {
  OrderRun run(shards(50));
  const Names list = OrderRun::shuffled(shards(50), 31);
  run.epoch(list, 1);
  Names now = shards(50);
  std::erase(now, list[20]);
  now.push_back("shard-000007b.tar");
  now.push_back("another.tar");
  run.order.set_names(now);
  run.forget_counts();
  for (const auto& name : list) {
    if (name != list[20]) run.open(name, 2);
  }
  CHECK(run.foretold >= 44);
  // A name that is gone is not guessed.
  CHECK(run.waiting.find(list[20]) == run.waiting.end());
  run.order.set_names({});
  CHECK(run.open(list[0], 2).empty());
}

TEST_CASE("a directory that grows under its reader goes on") {
  OrderRun run(shards(10));
  for (const auto& name : shards(10)) run.open(name, 1);
  run.order.set_names(shards(20));
  run.forget_counts();
  for (int i = 10; i < 20; ++i) run.open(shards(20)[i], 1);
  CHECK(run.foretold >= 9);
}

TEST_CASE("a million names: only hints, and little is kept") {
  Names names;
  for (int i = 0; i < 1000000; ++i) names.push_back(fmt::format("{:07}.jpg", i));
  ShardOrder order;
  order.set_names(names);
  CHECK(order.on_open(names[0], 1, 4).empty());
  CHECK(order.on_open(names[1], 1, 4).empty());
  order.on_close(names[0]);
  CHECK(order.hint({names[500], names[3], names[777777]}) == 3);
  CHECK(names_of(order.on_open(names[500], 1, 1)) == Names{names[3]});
  CHECK(order.hint(Names(names.begin(), names.begin() + 200000)) == ShardOrder::kNamesLimit);
}

TEST_CASE("many processes, few names, no names") {
  OrderRun run(shards(100));
  for (uint32_t process = 1; process < 10000; ++process) run.open(shards(100)[process * 37 % 100], process);
  run.end_workers();
  OrderRun one(shards(1));
  CHECK(one.open(shards(1)[0], 1, 4).empty());
  CHECK(one.open(shards(1)[0], 2, 4).empty());
  OrderRun two(shards(2));
  for (int i = 0; i < 10; ++i) two.open(shards(2)[i % 2], 1, 4);
  OrderRun none({});
  CHECK(none.open("anything", 1, 4).empty());
  none.order.on_close("never opened");
}

}  // namespace
}  // namespace shardfs::readahead
