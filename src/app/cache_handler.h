// CacheHandler: the control commands about the cache folder, from JSON to Holdings and back: cache_list, cache_stat,
// cache_pin, cache_unpin, cache_evict, cache_clear, cache_verify, cache_limit. Served by a mount on its control socket, and called by
// `shardfs cache` itself where there is no mount. What may take long is cut into pages: the asker goes on by itself.
// Thread rule: thread-safe. Owns nothing; what the environment refers to outlives it.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/path_lookup.h"
#include "base/error.h"
#include "cache/holdings.h"
#include "control/server.h"

namespace shardfs::app {

class CacheHandler {
 public:
  struct Environment {
    cache::Holdings& holdings;
    // Of a mount; without one files are known by their names in the cache only.
    PathLookup* lookup = nullptr;
    std::string mountpoint;
    std::string endpoint;
    std::string bucket;
    std::function<void()> release_idle;
  };
  explicit CacheHandler(Environment environment) : env_(std::move(environment)) {}

  /// By command. They refer to this object. Errors of all: kInvalid: arguments that make no sense; kCacheIo.
  std::map<std::string, control::Handler> handlers();
  /// The same commands where there is no cache.
  static std::map<std::string, control::Handler> refusals();

 private:
  using Json = nlohmann::json;
  /// One file that was asked for. holding: as an error if it is not in the cache.
  struct Selected {
    std::string given;
    base::Result<cache::Holding> holding;
    base::Result<store::ObjectInfo> info;  // if a path of the mount was given
  };
  using Run = base::Result<Json> (CacheHandler::*)(const Json&);
  static const std::map<std::string, Run>& commands();
  base::Result<std::vector<Selected>> select(const Json& arguments);
  base::Result<Json> list(const Json& arguments);
  base::Result<Json> stat(const Json& arguments);
  base::Result<Json> pin(const Json& arguments);
  base::Result<Json> unpin(const Json& arguments);
  base::Result<Json> evict(const Json& arguments);
  base::Result<Json> clear(const Json& arguments);
  base::Result<Json> verify(const Json& arguments);
  base::Result<Json> limit(const Json& arguments);

  const Environment env_;
};

}  // namespace shardfs::app
