#include "app/options.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "../temporary_folder.h"

namespace shardfs::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Values = std::map<std::string, std::string>;

struct Given {
  Values command_line;
  Values environment;
  std::string site;  // TOML; empty: no file
  std::string user;
};

base::Result<MountOptions> resolve(const Given& given) {
  TemporaryFolder folder;
  OptionSources sources;
  sources.command_line = given.command_line;
  sources.environment = [&](const std::string& name) {
    const auto place = given.environment.find(name);
    return place == given.environment.end() ? std::nullopt : std::optional<std::string>(place->second);
  };
  const std::string site = folder.path() + "/site.toml";
  const std::string user = folder.path() + "/user.toml";
  if (!given.site.empty()) std::ofstream(site) << given.site;
  if (!given.user.empty()) std::ofstream(user) << given.user;
  sources.files = {{site, false, true}, {user, false, false}};
  return resolve_options(sources);
}

std::string refusal(const Given& given) {
  const auto options = resolve(given);
  REQUIRE_FALSE(options.has_value());
  CHECK(options.error().code == base::Code::kInvalid);
  return options.error().message;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("the defaults") {
  const auto options = resolve({});
  REQUIRE(options.has_value());
  CHECK(options->metadata_ttl == seconds(60));
  CHECK(options->negative_ttl == seconds(2));
  CHECK(options->stale_if_error);
  CHECK(options->memory_limit_bytes == 256u << 20);
  CHECK(options->connections == 64);
  CHECK(options->cache_limit.of(1000) == 800);
  CHECK(options->cache_min_free.of(1000) == 50);
  CHECK(options->passthrough == Passthrough::kAuto);
  CHECK(options->uid == ::geteuid());
  CHECK(options->allow_other == (::geteuid() == 0));
  CHECK_FALSE(options->cache_off());
  CHECK_FALSE(options->store_given_by_job);
}

TEST_CASE("the command line goes before the environment, that before the user's file, that before the site's") {
  Given given;
  given.site = "cache-size = \"1G\"\nconnections = 1\nregion = \"site\"\nmetadata-ttl = \"1s\"\n";
  CHECK(resolve(given)->connections == 1);
  given.user = "connections = 2\nregion = \"user\"\nmetadata_ttl = \"2s\"\n";
  CHECK(resolve(given)->connections == 2);
  given.environment = {{"SHARDFS_CONNECTIONS", "3"}, {"SHARDFS_REGION", "environment"}};
  CHECK(resolve(given)->connections == 3);
  given.command_line = {{"connections", "4"}};
  const auto options = resolve(given);
  REQUIRE(options.has_value());
  CHECK(options->connections == 4);
  CHECK(options->region == "environment");
  CHECK(options->metadata_ttl == seconds(2));
  CHECK(options->cache_limit.of(0) == 1u << 30);
}

TEST_CASE("every setting takes a sensible value in all three places") {
  const Values sensible = {{"endpoint-url", "http://127.0.0.1:9000"},
                           {"region", "eu-west-1"},
                           {"profile", "training"},
                           {"path-style", "true"},
                           {"no-sign-request", "true"},
                           {"requester-pays", "true"},
                           {"ca-bundle", "/etc/ca.pem"},
                           {"connections", "8"},
                           {"max-bandwidth", "100M"},
                           {"late-after", "1s"},
                           {"cache-dir", "/tmp/cache"},
                           {"cache-size", "50%"},
                           {"cache-min-free", "1G"},
                           {"cache-eviction", "lru"},
                           {"cache-share", "25%"},
                           {"scrub", "true"},
                           {"memory-limit", "64M"},
                           {"manifest", "/tmp/list.csv"},
                           {"metadata-ttl", "inf"},
                           {"negative-ttl", "0"},
                           {"stale-if-error", "false"},
                           {"passthrough", "off"},
                           {"read-ahead-kb", "1024"},
                           {"extended-attributes", "false"},
                           {"allow-other", "true"},
                           {"uid", "1000"},
                           {"gid", "1001"},
                           {"file-mode", "0440"},
                           {"dir-mode", "0550"},
                           {"fuse-threads", "4"},
                           {"foreground", "true"},
                           {"core-dumps", "true"},
                           {"log-level", "debug"},
                           {"log-file", "/tmp/shardfs.log"},
                           {"oom-score-adj", "-100"},
                           {"metrics-listen", "9400"},
                           {"metrics-file", "/tmp/metrics"},
                           {"metrics-labels", "slurm_job=7"}};
  std::set<std::string> names;
  for (const Setting& setting : settings()) names.insert(setting.name);
  Given command_line;
  Given environment;
  Given file;
  for (const auto& [name, value] : sensible) {
    const bool known = names.erase(name) == 1;
    CHECK(known);
    command_line.command_line[name] = value;
    environment.environment[variable_of(name)] = value;
    file.user += name + " = \"" + value + "\"\n";
  }
  CHECK_MESSAGE(names.empty(), "a setting without a test");
  for (const Given& given : {command_line, environment, file}) {
    const auto options = resolve(given);
    REQUIRE_MESSAGE(options.has_value(), options.error().message);
    CHECK(options->endpoint_url == "http://127.0.0.1:9000");
    CHECK(options->region == "eu-west-1");
    CHECK(options->profile == "training");
    CHECK(options->path_style);
    CHECK(options->no_sign_request);
    CHECK(options->ca_bundle == "/etc/ca.pem");
    CHECK(options->connections == 8);
    CHECK(options->max_bandwidth_bytes_per_s == 100u << 20);
    CHECK(options->cache_folder == "/tmp/cache");
    CHECK(options->cache_limit.of(100) == 50);
    CHECK(options->cache_min_free.of(100) == 1u << 30);
    CHECK(options->memory_limit_bytes == 64u << 20);
    CHECK(options->metadata_ttl == milliseconds::max());
    CHECK(options->negative_ttl == milliseconds(0));
    CHECK_FALSE(options->stale_if_error);
    CHECK(options->passthrough == Passthrough::kOff);
    CHECK(options->read_ahead_kb == 1024);
    CHECK(options->allow_other);
    CHECK(options->uid == 1000);
    CHECK(options->gid == 1001);
    CHECK(options->file_mode == 0440);
    CHECK(options->directory_mode == 0550);
    CHECK(options->fuse_threads == 4);
    CHECK(options->foreground);
    CHECK(options->log_level == base::LogLevel::kDebug);
    CHECK(options->log_file == "/tmp/shardfs.log");
    CHECK(options->store_given_by_job);
  }
}

TEST_CASE("a file may write numbers, truth and modes as such") {
  Given given;
  given.user = "connections = 8\npath-style = true\nfile-mode = 0o400\nuid = 1000\ncache-size = 0\n";
  const auto options = resolve(given);
  REQUIRE(options.has_value());
  CHECK(options->connections == 8);
  CHECK(options->path_style);
  CHECK(options->file_mode == 0400);
  CHECK(options->uid == 1000);
  CHECK(options->cache_off());
}

TEST_CASE("nonsense is refused and the message says where, which value and what would be right") {
  const auto on_command_line = [](const std::string& name, const std::string& value) {
    return refusal({.command_line = {{name, value}}});
  };
  CHECK(on_command_line("cache-size", "lots") == "--cache-size: \"lots\" is not a size such as 4096, 512M or 1.5T");
  CHECK(has(on_command_line("cache-size", "120%"), "--cache-size: \"120%\""));
  CHECK(has(on_command_line("cache-size", "-1"), "--cache-size: \"-1\""));
  CHECK(has(on_command_line("memory-limit", "1M"), "less than 32M"));
  CHECK(has(on_command_line("metadata-ttl", "soon"), "--metadata-ttl: \"soon\""));
  CHECK(has(on_command_line("connections", "0"), "from 1 to 1024"));
  CHECK(has(on_command_line("connections", "many"), "\"many\""));
  CHECK(has(on_command_line("file-mode", "999"), "\"999\" is not a mode"));
  CHECK(has(on_command_line("dir-mode", "7777"), "\"7777\" is not a mode"));
  CHECK(has(on_command_line("uid", "-1"), "\"-1\""));
  CHECK(has(on_command_line("passthrough", "maybe"), "auto, on or off"));
  CHECK(has(on_command_line("path-style", "maybe"), "true or false"));
  CHECK(has(on_command_line("endpoint-url", "127.0.0.1:9000"), "\"127.0.0.1:9000\" is not an address"));
  CHECK(has(on_command_line("cache-dir", "cache"), "not an absolute path"));
  CHECK(has(on_command_line("cache-dir", ""), "not an absolute path"));
  CHECK(has(on_command_line("log-level", "loud"), "\"loud\""));
  CHECK(has(refusal({.environment = {{"SHARDFS_CACHE_SIZE", "lots"}}}), "SHARDFS_CACHE_SIZE: \"lots\""));
  CHECK(has(refusal({.user = "cache-size = \"lots\"\n"}), "user.toml: cache-size: \"lots\""));
}

TEST_CASE("a file with an unknown key, a wrong type or bad TOML is refused, naming key and line") {
  CHECK(has(refusal({.user = "connections = 2\ncache-sise = \"1G\"\n"}), "line 2: unknown key \"cache-sise\""));
  CHECK(has(refusal({.site = "[mount]\nconnections = 2\n"}), "unknown key \"mount\""));
  CHECK(has(refusal({.user = "connections = [1, 2]\n"}), "the value of \"connections\""));
  CHECK(has(refusal({.user = "connections = 1.5\n"}), "the value of \"connections\""));
  CHECK(has(refusal({.user = "connections = \n"}), "user.toml, line 1: "));
  CHECK(has(refusal({.user = "cache-size = \"1G\"\ncache_size = \"2G\"\n"}), "given twice"));
}

TEST_CASE("the file of --config must exist and is read alone") {
  TemporaryFolder folder;
  const auto sources = default_sources({}, folder.path() + "/missing.toml");
  REQUIRE(sources.files.size() == 1);
  const auto options = resolve_options(sources);
  REQUIRE_FALSE(options.has_value());
  CHECK(has(options.error().message, "missing.toml"));
  const auto of_folder = resolve_options(default_sources({}, folder.path()));
  REQUIRE_FALSE(of_folder.has_value());
  CHECK(has(of_folder.error().message, folder.path() + ": Is a directory"));
  CHECK(default_sources({}, "").files.front().path == "/etc/shardfs/config.toml");
}

TEST_CASE("who chose the store decides the cache's namespace") {
  Given given;
  given.site = "endpoint-url = \"https://s3.site.example\"\n";
  CHECK_FALSE(resolve(given)->store_given_by_job);
  given.command_line = {{"cache-size", "1G"}};
  CHECK_FALSE(resolve(given)->store_given_by_job);
  given.environment = {{"HTTPS_PROXY", "http://proxy.example"}};
  CHECK(resolve(given)->store_given_by_job);
  CHECK(resolve({.environment = {{"AWS_ACCESS_KEY_ID", "x"}}})->store_given_by_job);
  CHECK(resolve({.command_line = {{"endpoint-url", "https://a.example"}}})->store_given_by_job);
  CHECK(resolve({.user = "ca-bundle = \"/x\"\n"})->store_given_by_job);
}

TEST_CASE("a site's own variables give settings, the source and the names of the keys") {
  Given given;
  given.site =
      "region = \"file\"\n[variables]\nendpoint-url = \"SITE_ENDPOINT\"\nregion = \"SITE_REGION\"\n"
      "bucket = \"SITE_BUCKET\"\nprefix = \"DATA_PREFIX\"\naccess_key_id = \"SITE_KEY\"\n"
      "secret-access-key = \"SITE_SECRET\"\n";
  auto options = resolve(given);
  REQUIRE(options.has_value());
  CHECK(options->region == "file");
  CHECK(options->mapped_source.empty());
  CHECK(options->key_variables.access_key_id == "SITE_KEY");
  CHECK(options->key_variables.secret_access_key == "SITE_SECRET");
  CHECK(options->key_variables.session_token.empty());
  CHECK_FALSE(options->store_given_by_job);
  given.environment = {{"SITE_REGION", "site"}, {"SITE_BUCKET", "bkt"}};
  options = resolve(given);
  CHECK(options->region == "site");
  CHECK(options->mapped_source == "s3://bkt");
  CHECK_FALSE(options->store_given_by_job);
  given.environment["DATA_PREFIX"] = "/sets/a/";
  given.environment["SITE_BUCKET"] = "s3://bkt/";
  given.environment["SHARDFS_REGION"] = "shardfs";
  options = resolve(given);
  CHECK(options->region == "shardfs");
  CHECK(options->mapped_source == "s3://bkt/sets/a/");
  given.environment["SITE_KEY"] = "x";
  CHECK(resolve(given)->store_given_by_job);
  given.environment.erase("SITE_KEY");
  given.environment["SITE_ENDPOINT"] = "https://s3.site.example";
  CHECK(resolve(given)->store_given_by_job);
  given.environment["SITE_ENDPOINT"] = "s3.site.example";
  CHECK(has(refusal(given), "SITE_ENDPOINT (for endpoint-url): \"s3.site.example\""));
  CHECK(has(refusal({.site = "[variables]\ncolour = \"X\"\n"}), "line 2: no variable can give \"colour\""));
  CHECK(has(refusal({.site = "[variables]\nregion = 1\n"}), "line 2: \"region\" must be the name of a variable"));
}

TEST_CASE("variables that look like settings and are none") {
  const std::vector<std::string> names = {
      "SHARDFS_CACHE_SIZE", "SHARDFS_CACHESIZE",   "SHARDFS",      "PATH",
      "SHARDFS_CONFIG",     "SHARDFS_DEMO_PYTHON", "SHARDFS_",     "SHARDFS_RUNTIME_DIR",
      "SHARDFS_TESTSTORE",  "SHARDFS_TESTS_MARK",  "SHARDFS_BUILD"};
  CHECK(unknown_variables(names) == std::vector<std::string>{"SHARDFS_CACHESIZE", "SHARDFS_"});
}

TEST_CASE("names of variables") {
  CHECK(variable_of("cache-size") == "SHARDFS_CACHE_SIZE");
  CHECK(variable_of("read-ahead-kb") == "SHARDFS_READ_AHEAD_KB");
}

}  // namespace
}  // namespace shardfs::app
