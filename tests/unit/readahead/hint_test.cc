#include <doctest/doctest.h>

#include "order_run.h"
#include "readahead/shard_order.h"

namespace shardfs::readahead {
namespace {

using Names = OrderRun::Names;

Names shards(int count) { return OrderRun::numbered("shard-{:06}.tar", 0, count); }

Names names_of(const std::vector<ShardOrder::Guess>& guesses) {
  Names names;
  for (const auto& guess : guesses) names.push_back(guess.name);
  return names;
}

TEST_CASE("hint: the coming list is offered in order and consumed") {
  OrderRun run(shards(100));
  const Names list = OrderRun::shuffled(shards(100), 21);
  CHECK(run.order.hint(list) == 100);
  CHECK(names_of(run.order.hinted(2)) == Names{list[0], list[1]});
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    const auto guesses = run.open(list[i], 1, 1);
    CHECK(guesses == Names{list[i + 1]});
  }
  CHECK(run.open(list.back(), 1, 1).empty());
  CHECK(run.order.hinted(5).empty());
}

TEST_CASE("hint: four workers that go through the list together") {
  OrderRun run(shards(100));
  const Names list = OrderRun::shuffled(shards(100), 22);
  run.order.hint(list);
  run.epoch(list, 4);
  CHECK(run.foretold >= 96);
  CHECK(run.wrong_guesses() == 0);
}

TEST_CASE("hint: names that do not exist are not taken, names that vanish are not offered") {
  OrderRun run(shards(10));
  const Names names = shards(10);
  CHECK(run.order.hint({"nothing", names[4], "shard-4.tar", names[7], "", names[2]}) == 3);
  CHECK(names_of(run.order.hinted(9)) == Names{names[4], names[7], names[2]});
  Names fewer = names;
  fewer.erase(fewer.begin() + 7);
  run.order.set_names(fewer);
  CHECK(run.open(names[4], 1, 1) == Names{names[2]});
  CHECK(run.order.hint({"none"}) == 0);
  CHECK(run.order.hinted(9).empty());
}

TEST_CASE("hint: a new one takes the place of the old, or goes on after it") {
  OrderRun run(shards(20));
  const Names names = shards(20);
  run.order.hint({names[3], names[9]});
  run.order.hint({names[5]}, true);
  CHECK(names_of(run.order.hinted(9)) == Names{names[3], names[9], names[5]});
  run.order.hint({names[8], names[1]});
  CHECK(names_of(run.order.hinted(9)) == Names{names[8], names[1]});
}

TEST_CASE("hint: a list that nobody follows is silent, and a name that is left out does not stop it") {
  OrderRun wrong(shards(100));
  wrong.order.hint(OrderRun::shuffled(shards(100), 1));
  wrong.epoch(OrderRun::shuffled(shards(100), 2), 1);
  CHECK(wrong.wrong_guesses() <= 4);

  OrderRun run(shards(100));
  const Names list = OrderRun::shuffled(shards(100), 23);
  run.order.hint(list);
  for (size_t i = 0; i < list.size(); ++i) {
    if (i % 10 != 5) run.open(list[i], 1, 2);
  }
  CHECK(run.foretold >= 85);
}

}  // namespace
}  // namespace shardfs::readahead
