#include <doctest/doctest.h>

#include "app/options.h"

namespace shardfs::app {
namespace {

TEST_CASE("words of mount -o become settings; those of others are passed over") {
  std::map<std::string, std::string> values;
  std::string config;
  REQUIRE(take_mount_words("rw,cache_size=5G,path-style,_netdev,x-systemd.requires=a,comment=b,config=/c,profile=a\\,b",
                           values, config));
  CHECK(values == std::map<std::string, std::string>{{"cache-size", "5G"}, {"path-style", "true"}, {"profile", "a,b"}});
  CHECK(config == "/c");
}

TEST_CASE("a word that nobody knows, or that lacks its value, is refused by its name without the value") {
  std::map<std::string, std::string> values;
  std::string config;
  for (const auto* words : {"cachesize=secret", "ro,cache_size", "secrets"}) {
    const auto taken = take_mount_words(words, values, config);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == base::Code::kInvalid);
    CHECK(taken.error().message.find("=secret") == std::string::npos);
  }
}

}  // namespace
}  // namespace shardfs::app
