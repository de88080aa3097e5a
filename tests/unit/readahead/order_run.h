// OrderRun: drives a ShardOrder with the opens of a job, and counts which opens it had foretold and which guesses
// nobody used. A worker closes its shard when it opens the next, as the loaders do.
#pragma once

#include <fmt/format.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "readahead/shard_order.h"

namespace shardfs::readahead {

struct OrderRun {
  using Names = std::vector<std::string>;

  explicit OrderRun(Names names) { order.set_names(std::move(names)); }

  static Names numbered(const std::string& format, int begin, int end) {
    Names names;
    for (int i = begin; i < end; ++i) names.push_back(fmt::format(fmt::runtime(format), i));
    return names;
  }
  static Names shuffled(Names names, unsigned seed) {
    std::mt19937 random(seed);
    for (size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[random() % i]);
    return names;
  }

  /// The names guessed.
  Names open(const std::string& name, uint32_t process, size_t count = 0) {
    ++opens;
    if (const auto guessed = waiting.find(name); guessed != waiting.end()) {
      ++foretold;
      waiting.erase(guessed);
    }
    std::erase_if(waiting, [this](const auto& guess) { return opens - guess.second > kPatience && ++wrong > 0; });
    const auto held = holds.find(process);
    if (held != holds.end()) order.on_close(held->second);
    holds[process] = name;
    Names names;
    for (auto& guess : order.on_open(name, process, count > 0 ? count : order.readers() + 1)) {
      if (waiting.emplace(guess.name, opens).second) ++guesses;
      names.push_back(std::move(guess.name));
    }
    return names;
  }

  /// One epoch of new workers: worker w takes every workers-th name of the list, and they open in turn.
  void epoch(const Names& list, uint32_t workers, size_t count = 0) {
    const uint32_t first = next_process;
    next_process += workers;
    for (size_t i = 0; i < list.size(); ++i) open(list[i], first + static_cast<uint32_t>(i % workers), count);
    end_workers();
  }
  void end_workers() {
    for (const auto& [process, name] : holds) order.on_close(name);
    holds.clear();
  }
  /// Guesses that were not used within kPatience opens, or not yet.
  size_t wrong_guesses() const { return wrong + waiting.size(); }
  void forget_counts() {
    waiting.clear();
    opens = foretold = guesses = wrong = 0;
  }

  static constexpr size_t kPatience = 12;  // opens
  ShardOrder order;
  size_t opens = 0;
  size_t foretold = 0;  // opens of a name that was guessed before
  size_t guesses = 0;
  size_t wrong = 0;
  std::map<std::string, size_t> waiting;  // guessed, not opened since: at which open
  std::map<uint32_t, std::string> holds;
  uint32_t next_process = 1000;
};

}  // namespace shardfs::readahead
