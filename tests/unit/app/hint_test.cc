#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "app/hint_handler.h"

namespace shardfs::app {
namespace {

using nlohmann::json;

struct Fixture {
  HintHandler handler() {
    return {"/mnt/data",
            [this](const std::string& directory, std::function<void()> done) {
              listed.push_back(directory);
              if (later) {
                threads.emplace_back(done);
              } else {
                done();
              }
            },
            [this](const std::vector<std::string>& paths, bool append) {
              given.push_back(paths);
              appended = append;
              HintResult result;
              for (const auto& path : paths) ++(path.ends_with(".tar") ? result.accepted : result.unknown);
              return result;
            }};
  }
  json ask(const json& arguments) { return json::parse(handler().handle(arguments.dump()).value()); }
  ~Fixture() {
    for (auto& thread : threads) thread.join();
  }

  std::vector<std::string> listed;
  std::vector<std::vector<std::string>> given;
  bool appended = false;
  bool later = false;  // the listing is answered by another thread
  std::vector<std::thread> threads;
};

TEST_CASE("hint: names are given in order, and what means nothing is counted") {
  Fixture fixture;
  const json answer = fixture.ask({{"files", {"b.tar", "../x", "train/c.tar", "", "a.tar", "readme", "/etc/passwd"}}});
  CHECK(answer == json{{"accepted", 3}, {"unknown", 4}});
  CHECK(fixture.given == std::vector<std::vector<std::string>>{{"b.tar", "train/c.tar", "a.tar", "readme"}});
  CHECK_FALSE(fixture.appended);
  CHECK(fixture.ask({{"files", {"d.tar"}}, {"append", true}}) == json{{"accepted", 1}, {"unknown", 0}});
  CHECK(fixture.appended);
  CHECK(fixture.ask({{"files", json::array()}}) == json{{"accepted", 0}, {"unknown", 0}});
}

TEST_CASE("hint: each directory is made known once before, and not more of them than a few") {
  Fixture fixture;
  fixture.later = true;
  fixture.ask({{"files", {"train/b.tar", "val/a.tar", "train/a.tar", "c.tar", "../up/a.tar"}}});
  CHECK(fixture.listed == std::vector<std::string>{"", "train", "val"});
  fixture.listed.clear();
  json files = json::array();
  for (int i = 0; i < 5000; ++i) files.push_back("nothing-" + std::to_string(i) + "/a.tar");
  CHECK(fixture.ask({{"files", files}})["accepted"] == 5000);
  CHECK(fixture.listed.size() == HintHandler::kDirectoriesListed);
}

TEST_CASE("hint: what is no list of names is refused, and nothing is asked for") {
  Fixture fixture;
  for (const char* arguments :
       {"", "[]", "{}", R"({"files": "a.tar"})", R"({"files": [1]})", R"({"files": ["a", null]})",
        R"({"files": ["a"], "append": 1})", R"({"file": ["a"]})"}) {
    CAPTURE(arguments);
    const auto answer = fixture.handler().handle(arguments);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code == base::Code::kInvalid);
  }
  CHECK(fixture.given.empty());
  CHECK(fixture.listed.empty());
}

}  // namespace
}  // namespace shardfs::app
