#include "readahead/small_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace shardfs::readahead;
using Open = SmallFiles::Open;

namespace {

/// Opens files, and fetches at once whatever may be fetched: at most `at_once` a step. Counts what was fetched and what
/// opens found.
struct Job {
  SmallFiles files;
  SmallFileYield yield;
  bool fits = true;
  size_t at_once = 16;
  size_t file_bytes = 100000;
  std::vector<size_t> fetched;  // in order
  std::set<size_t> there;
  size_t missed = 0, foreseen = 0;

  explicit Job(size_t count, bool fits = true) : files(count), fits(fits) {}

  void open(size_t index) {
    const double coverage = files.coverage();
    const Open open = files.on_open(index, false);
    yield.on_open(open, file_bytes, coverage);
    missed += open == Open::kMissed;
    foreseen += open == Open::kForeseen;
    if (open == Open::kForeseen) CHECK(there.count(index) == 1);
    for (size_t i = 0; i < at_once && yield.worthwhile(); ++i) {
      const auto next = files.next(fits);
      if (!next) break;
      files.fetching(*next);
      yield.on_fetch(file_bytes);
      fetched.push_back(*next);
      there.insert(*next);
    }
  }
  void open(const std::vector<size_t>& order) {
    for (const size_t index : order) open(index);
  }
  bool fetched_twice() const { return there.size() != fetched.size(); }
};

std::vector<size_t> numbers(size_t begin, size_t end) {
  std::vector<size_t> made(end - begin);
  std::iota(made.begin(), made.end(), begin);
  return made;
}

std::vector<size_t> shuffled(size_t count, unsigned seed) {
  auto made = numbers(0, count);
  std::shuffle(made.begin(), made.end(), std::mt19937(seed));
  return made;
}

/// Reader r of n takes the batches r, r + n, ... of so many files; all go on at one pace.
std::vector<size_t> batches(size_t count, size_t readers, size_t batch) {
  std::vector<size_t> made;
  for (size_t at = 0; at < count; at += readers * batch) {
    for (size_t i = 0; i < batch; ++i) {
      for (size_t reader = 0; reader < readers; ++reader) {
        const size_t index = at + reader * batch + i;
        if (index < count) made.push_back(index);
      }
    }
  }
  return made;
}

/// Reader r of n takes the r-th part of the list; all go on at one pace.
std::vector<size_t> ranges(size_t count, size_t readers) {
  std::vector<size_t> made;
  for (size_t i = 0; i < count / readers; ++i) {
    for (size_t reader = 0; reader < readers; ++reader) made.push_back(reader * (count / readers) + i);
  }
  return made;
}

/// Neighbours change places now and then, as two readers of one list do.
std::vector<size_t> jittered(std::vector<size_t> order, unsigned seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i + 1 < order.size(); i += 2) {
    if (random() % 2) std::swap(order[i], order[i + 1]);
  }
  return order;
}

}  // namespace

TEST_CASE("small files in listed order are fetched ahead of the readers, each once") {
  struct Case {
    const char* name;
    std::vector<size_t> order;
    size_t missed;  // at most
  };
  const Case cases[] = {
      {"one reader", numbers(0, 1000), 4},
      {"one reader from the middle", numbers(400, 1000), 4},
      {"four readers, one file in turn", jittered(numbers(0, 1000), 1), 5},
      {"four readers, a quarter each", ranges(1000, 4), 16},
      {"two workers, batches of 32", batches(1000, 2, 32), 8},
      {"eight workers, batches of 64", batches(1000, 8, 64), 32},
  };
  for (const bool fits : {true, false}) {
    for (const auto& the : cases) {
      CAPTURE(the.name);
      CAPTURE(fits);
      Job job(1000, fits);
      job.open(the.order);
      CHECK(job.missed <= the.missed);
      CHECK(job.missed + job.foreseen == the.order.size());
      CHECK_FALSE(job.fetched_twice());
    }
  }
}

TEST_CASE("before a fourth step nothing is fetched") {
  Job job(1000);
  job.open({10, 11, 12});
  CHECK(job.fetched.empty());
  job.open(13);
  REQUIRE_FALSE(job.fetched.empty());
  CHECK(job.fetched.front() == 14);
}

TEST_CASE("the window ahead of a run grows with it and ends where the reader stops") {
  Job job(100000, false);
  job.at_once = 10000;
  job.open({0, 1, 2, 3});
  CHECK(job.fetched == numbers(4, 4 + 16));
  job.open(4);
  CHECK(job.fetched == numbers(4, 5 + 25));
  job.open(numbers(5, 100));
  CHECK(job.fetched == numbers(4, 100 + 512));
}

TEST_CASE("opened at random, the directory is fetched whole if it fits, and not at all if it does not") {
  Job whole(1000);
  whole.open(shuffled(1000, 7));
  CHECK_FALSE(whole.fetched_twice());
  CHECK(whole.missed + whole.foreseen == 1000);
  CHECK(whole.missed < 100);  // 16 arrive for each that is opened

  Job too_large(1000, false);
  too_large.open(shuffled(1000, 7));
  CHECK(too_large.fetched.size() < 250);  // by chance some are in order
}

TEST_CASE("seven files opened here and there fetch nothing, an eighth does") {
  Job job(1000);
  job.open({900, 20, 500, 100, 700, 300, 600});
  CHECK(job.fetched.empty());
  job.open(700);  // again
  CHECK(job.fetched.empty());
  job.open(800);
  CHECK(job.fetched == numbers(0, 16));
}

TEST_CASE("what is resident by other means asks for nothing") {
  SmallFiles files(100);
  for (size_t i = 0; i < 100; i += 7) CHECK(files.on_open(i, true) == Open::kNeutral);
  CHECK_FALSE(files.wanted_whole());
  CHECK_FALSE(files.next(true));
}

TEST_CASE("a few opens pull no more than may lie unopened") {
  Job job(100000);
  job.at_once = 100000;
  job.open(shuffled(1000, 3));  // of the first thousand only
  const SmallFileLimits limits;
  CHECK(job.fetched.size() <= limits.unopened_files + limits.unopened_files_per_open * 1000 + 1000);

  Job large(100000);
  large.at_once = 100000;
  large.file_bytes = 4 << 20;
  large.open({0, 900, 1800, 2700, 3600, 4500, 5400, 6300});
  CHECK(large.fetched.size() == (64 + 16 * 32) / 4);
}

TEST_CASE("a reader from the end to the beginning soon stops what it makes no use of") {
  Job job(10000);
  job.at_once = 1000;
  auto order = numbers(0, 10000);
  std::reverse(order.begin(), order.end());
  order.resize(600);
  job.open(order);
  CHECK(job.foreseen < 10);
  CHECK(job.fetched.size() < 9000);
  const size_t fetched = job.fetched.size();
  std::vector<size_t> more = numbers(9000, 9300);
  std::reverse(more.begin(), more.end());
  job.open(more);
  CHECK(job.fetched.size() == fetched);
}

TEST_CASE("without a cache the next epoch is read ahead again") {
  Job job(500, false);
  job.open(numbers(0, 500));
  const size_t first = job.missed;
  job.there.clear();
  job.fetched.clear();
  job.open(numbers(0, 500));
  CHECK(job.missed == first);  // the first ones are opened again, which is no miss
  CHECK(job.fetched.size() > 480);
  CHECK_FALSE(job.fetched_twice());
}

TEST_CASE("eight readers of the same files fetch each once") {
  Job job(500, false);
  for (size_t i = 0; i < 500; ++i) {
    for (int reader = 0; reader < 8; ++reader) job.open(i);
  }
  CHECK_FALSE(job.fetched_twice());
  CHECK(job.missed <= 4);
}

TEST_CASE("a file that is lost is no longer found, and a directory of a million is walked once") {
  SmallFiles files(1000000);
  for (size_t i = 0; i < 8; ++i) files.on_open(i * 1000, false);
  const auto first = files.next(true);
  REQUIRE(first);
  files.fetching(*first);
  CHECK(files.unopened() == 1);
  files.lost(*first);
  CHECK(files.unopened() == 0);
  CHECK(files.on_open(*first, false) == Open::kMissed);
  size_t given = 1;
  while (files.next(true)) ++given;
  CHECK(given == 1000000 - 8);
  CHECK(files.exhausted());
}

TEST_CASE("siblings are wanted after eight opens over three of them") {
  struct Case {
    std::vector<size_t> siblings;
    bool wanted;
  };
  const Case cases[] = {
      {{0, 1, 2, 3, 4, 5, 6}, false},          {{0, 1, 2, 3, 4, 5, 6, 7}, true},
      {{0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, false}, {{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2}, true},
      {{5, 5, 5, 5, 5, 5, 5, 5, 5}, false},
  };
  for (const auto& the : cases) {
    SiblingOpens opens;
    for (const size_t sibling : the.siblings) opens.on_missed(sibling);
    CHECK(opens.wanted() == the.wanted);
  }
}

TEST_CASE("an image folder: a hundred directories of fifty, shuffled over all") {
  constexpr size_t kDirectories = 100, kFiles = 50;
  std::vector<SmallFiles> directories(kDirectories, SmallFiles(kFiles));
  SiblingOpens siblings;
  SmallFileYield yield;
  size_t missed = 0, foreseen = 0, fetched = 0, at = 0;
  for (const size_t item : shuffled(kDirectories * kFiles, 11)) {
    SmallFiles& directory = directories[item / kFiles];
    const double coverage = directory.coverage();
    const Open open = directory.on_open(item % kFiles, false);
    yield.on_open(open, 10000, coverage);
    missed += open == Open::kMissed;
    foreseen += open == Open::kForeseen;
    if (open == Open::kMissed) siblings.on_missed(item / kFiles);
    if (!siblings.wanted()) continue;
    for (size_t i = 0; i < 64 && at < kDirectories && yield.worthwhile();) {
      directories[at].want_whole();
      const auto next = directories[at].next(true);
      if (!next) {
        ++at;
        continue;
      }
      directories[at].fetching(*next);
      yield.on_fetch(10000);
      ++fetched;
      ++i;
    }
  }
  CHECK(missed + foreseen == kDirectories * kFiles);
  CHECK(missed < 100);
  CHECK(fetched + missed == kDirectories * kFiles);
}
