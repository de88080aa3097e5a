// Which files leave, by recorded orders of opens: a cache of whole objects, simulated, with either policy.
#include "cache/eviction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Room for so many objects of one size; says of each open whether it was a hit.
class Simulated {
 public:
  Simulated(std::unique_ptr<EvictionPolicy> policy, size_t room) : policy_(std::move(policy)), room_(room) {}

  bool open(const std::string& key) {
    const auto id = object(key);
    policy_->note_use(id, now);
    const auto place = resident_.find(key);
    if (place != resident_.end()) {
      place->second = now;
      return true;
    }
    if (resident_.size() >= room_ && !evict_for(id)) return false;
    resident_[key] = now;
    ++written;
    return false;
  }

  /// Share of hits of one scan; each object takes a second.
  double scan(const std::vector<std::string>& keys) {
    size_t hits = 0;
    for (const auto& key : keys) {
      hits += open(key);
      now += seconds(1);
    }
    return static_cast<double>(hits) / static_cast<double>(keys.size());
  }

  size_t resident_of(const std::string& prefix) const {
    return static_cast<size_t>(std::count_if(resident_.begin(), resident_.end(),
                                             [&](const auto& file) { return file.first.starts_with(prefix); }));
  }

  base::WallTime now{hours(24)};
  size_t written = 0;

 private:
  bool evict_for(const store::ObjectId& newcomer) {
    std::vector<Candidate> candidates;
    for (const auto& [key, last_use] : resident_) candidates.push_back({object(key), 1, last_use});
    const auto order = policy_->order(candidates, &newcomer, now);
    if (order.empty()) return false;
    resident_.erase(candidates[order.front()].id.key);
    return true;
  }

  const std::unique_ptr<EvictionPolicy> policy_;
  const size_t room_;
  std::map<std::string, base::WallTime> resident_;
};

std::vector<std::string> shards(const std::string& prefix, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(prefix + std::to_string(1000 + i));
  return keys;
}

}  // namespace

TEST_CASE("a cyclic scan of twice the cache: half of it hits, and nothing is written after the first epoch") {
  const auto keys = shards("set/train/", 100);
  Simulated next_use(make_next_use("set/"), 50);
  CHECK(next_use.scan(keys) == 0);
  CHECK(next_use.written == 50);
  for (int epoch = 0; epoch < 5; ++epoch) CHECK(next_use.scan(keys) == 0.5);
  CHECK(next_use.written == 50);

  Simulated lru(make_least_recently_used(), 50);
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(lru.scan(keys) == 0);
  CHECK(lru.written == 300);
}

TEST_CASE("an order that is shuffled anew each epoch keeps what is resident") {
  auto keys = shards("set/train/", 100);
  std::mt19937 random(7);
  Simulated cache(make_next_use("set/"), 50);
  cache.scan(keys);
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::shuffle(keys.begin(), keys.end(), random);
    CHECK(cache.scan(keys) >= 0.45);
  }
  CHECK(cache.written <= 50 + 10 * 5);  // a tenth of the set an epoch would be 10
}

TEST_CASE("opens for every sample do not make the interval short") {
  const auto keys = shards("set/train/", 40);
  Simulated cache(make_next_use("set/"), 20);
  double last = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::string> samples;
    for (const auto& key : keys) samples.insert(samples.end(), 50, key);
    last = cache.scan(samples);
  }
  CHECK(last == 0.5);
  CHECK(cache.written == 20);
}

TEST_CASE("files that their set does not use any more leave after two of its intervals") {
  Simulated cache(make_next_use("set/"), 30);
  for (int epoch = 0; epoch < 3; ++epoch) cache.scan(shards("set/train/old-", 30));
  CHECK(cache.resident_of("set/train/old-") == 30);
  double hits = 0;
  for (int epoch = 0; epoch < 8; ++epoch) hits = cache.scan(shards("set/train/new-", 30));
  CHECK(hits == 1);
  CHECK(cache.resident_of("set/train/new-") == 30);
}

TEST_CASE("of two sets that are scanned in turn, the one that comes round sooner keeps its place") {
  Simulated cache(make_next_use("set/"), 20);
  const auto often = shards("set/val/", 10);
  for (int round = 0; round < 6; ++round) {
    cache.scan(often);
    cache.scan(shards("set/train/", 40));
  }
  CHECK(cache.resident_of("set/val/") == 10);
  CHECK(cache.scan(often) == 1);
}

TEST_CASE("a copy of everything, read once, does not push out a set that a job reads meanwhile") {
  Simulated cache(make_next_use(""), 20);
  const auto train = shards("train/", 20);
  const auto backup = shards("backup/", 200);
  for (int epoch = 0; epoch < 3; ++epoch) cache.scan(train);
  for (size_t i = 0; i < backup.size(); ++i) {
    CHECK(cache.open(train[i % train.size()]));
    CHECK_FALSE(cache.open(backup[i]));
    cache.now += seconds(1);
  }
  CHECK(cache.resident_of("train/") == 20);
  // The job has ended, and another one reads on: the old set is gone after two of its intervals.
  for (int epoch = 0; epoch < 3; ++epoch) cache.scan(shards("backup/", 40));
  CHECK(cache.resident_of("backup/") == 20);
}

TEST_CASE("what an earlier mount left of this set stays, what it left of others leaves") {
  const auto policy = make_next_use("set/");
  const base::WallTime now{hours(48)};
  const auto newcomer = object("set/train/1000");
  policy->note_use(newcomer, now - seconds(10));
  const std::vector<Candidate> candidates = {{object("set/train/1001"), 1, now - hours(2)},
                                             {object("set/old/1001"), 1, now - hours(2)},
                                             {object("set/older/1001"), 1, now - hours(3)}};
  CHECK(policy->order(candidates, &newcomer, now) == std::vector<size_t>{2, 1});
  CHECK(policy->order(candidates, nullptr, now).size() == 3);  // there is too much: all may leave
}

TEST_CASE("sets: the name after the mount's prefix") {
  const auto policy = make_next_use("data/imagenet/");
  CHECK(policy->set_of(object("data/imagenet/train/n01/a.jpg")) ==
        policy->set_of(object("data/imagenet/train/n02/b.jpg")));
  CHECK(policy->set_of(object("data/imagenet/train/a")) != policy->set_of(object("data/imagenet/val/a")));
  CHECK(policy->set_of(object("data/imagenet/a.tar")) == policy->set_of(object("data/imagenet/b.tar")));
}

TEST_CASE("the cache itself: a set of twice its size hits by half in the second scan, and no file is made in vain") {
  TestFolder folder;
  TestCache cache(folder, 32 * kMiB);
  cache.close();
  cache.options.eviction = Eviction::kNextUse;
  REQUIRE(cache.open());
  const auto scan = [&] {
    int hits = 0;
    for (int i = 0; i < 14; ++i) {
      const std::string key = "train/" + std::to_string(i);
      cache.clock.advance(seconds(10));
      cache->touch(object(key));
      if (const auto found = cache->find_file(object(key), 4 * kMiB)) {
        CHECK(reads_right(*found, key));
        ++hits;
      } else if (const auto made = cache->open_file(object(key), 4 * kMiB)) {
        CHECK(fill(*made, key));
      }
    }
    return hits;
  };
  CHECK(scan() == 0);
  const auto files = folder.files(".map").size();
  CHECK(files >= 6);
  const auto written = cache.counter("cache_written_bytes");
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(scan() == static_cast<int>(files));
  CHECK(cache.counter("cache_written_bytes") == written);
  CHECK(folder.files(".map").size() == files);
  CHECK(cache.counter("cache_evicted_files") == 0);
}
