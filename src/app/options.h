// MountOptions: what `shardfs mount` can be told, from one table of settings.
// A setting is known by one name in all places: --cache-size on the command line, SHARDFS_CACHE_SIZE in the
// environment, cache-size (or cache_size) in a TOML file, or by a site's own variable that the file's table [variables]
// names. Precedence: command line, SHARDFS_ variables, the site's variables, the file of --config, the user's file, the
// site's file, default. Thread rule: plain values; reading files blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "cache/cache.h"
#include "s3/key_variables.h"

namespace shardfs::app {

enum class Passthrough { kAuto, kOn, kOff };

struct MountOptions {
  // The store. Empty: what the AWS variables and profile files say.
  std::string endpoint_url;
  std::string region;
  std::string profile;
  bool path_style = false;
  bool no_sign_request = false;
  bool requester_pays = false;
  std::string ca_bundle;
  s3::KeyVariables key_variables;  // that the configuration maps
  std::string mapped_source;       // s3://..., from variables that the configuration maps; empty: none
  unsigned connections = 64;
  uint64_t max_bandwidth_bytes_per_s = 0;  // 0: no limit

  // The cache.
  std::string cache_folder;
  base::SizeOrPercent cache_limit{0, 80};  // 0 bytes: no cache
  base::SizeOrPercent cache_min_free{0, 5};
  cache::Eviction cache_eviction = cache::Eviction::kNextUse;
  base::SizeOrPercent cache_share{0, 100};  // of cache_limit
  bool scrub = false;

  std::string manifest;  // a file; empty: the store is listed
  uint64_t memory_limit_bytes = 256 << 20;
  std::chrono::milliseconds late_after{200};
  std::chrono::milliseconds metadata_ttl{60000};
  std::chrono::milliseconds negative_ttl{2000};
  bool stale_if_error = true;

  // The kernel side.
  Passthrough passthrough = Passthrough::kAuto;
  unsigned read_ahead_kb = 256;  // 0: the kernel's own, 128
  bool extended_attributes = true;
  bool allow_other = false;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t file_mode = 0444;
  uint32_t directory_mode = 0555;
  unsigned fuse_threads = 0;  // 0: chosen by the number of processors

  // The daemon.
  bool foreground = false;
  bool core_dumps = false;  // they would hold keys
  base::LogLevel log_level = base::LogLevel::kWarning;
  std::string log_file;  // empty: standard error in the foreground, else nowhere
  std::optional<int> oom_score_adj;
  std::string metrics_listen;  // empty: nowhere
  std::string metrics_file;    // a file, or a folder for one file a mount; empty: none
  std::map<std::string, std::string> metrics_labels;

  /// Endpoint, CA, keys or their choice came from the command line or the environment, not from a file of the site.
  bool store_given_by_job = false;

  bool cache_off() const { return cache_limit.percent == 0 || (cache_limit.percent < 0 && cache_limit.bytes == 0); }
};

/// One row of the table.
struct Setting {
  std::string name;        // "cache-size"
  std::string value_name;  // "SIZE"; empty: a switch, that may be written without a value
  std::string group;       // heading in the help
  std::string help;        // with the default and the unit
  bool of_store;           // counts for MountOptions::store_given_by_job
  base::Result<void> (*apply)(MountOptions& options, std::string_view value);
};

const std::vector<Setting>& settings();

/// Where the values come from; by setting name for the command line, by variable name for the environment.
struct OptionSources {
  std::map<std::string, std::string> command_line;
  std::function<std::optional<std::string>(const std::string& variable)> environment;
  /// Least important first. `required`: it is an error if it is not there.
  struct File {
    std::string path;
    bool required = false;
    bool of_site = false;  // belongs to the administrator
  };
  std::vector<File> files;
};

/// The files that are read when --config is given (config) or not (empty), and the real environment.
OptionSources default_sources(std::map<std::string, std::string> command_line, const std::string& config);

/// Errors: kInvalid, naming the setting, where it was given, its value, and what would be right.
base::Result<MountOptions> resolve_options(const OptionSources& sources);

/// Before the first thread: files that the environment names by relative paths get absolute ones, since a daemon's
/// folder is "/"; and HTTP_PROXY counts as http_proxy, which is the only one that libcurl looks at.
void prepare_environment();

/// Those names of variables that look like settings and are none.
std::vector<std::string> unknown_variables(const std::vector<std::string>& names);

/// Values by setting name from TOML text, and names of variables by "variables." + what they give; `origin` names it in
/// messages. Errors: kInvalid (not TOML, unknown key, a
/// value of a wrong type).
base::Result<std::map<std::string, std::string>> parse_toml(const std::string& text, const std::string& origin);

/// Settings from the words of `mount -o`, separated by commas ("\\," is one in a value): "cache_size=5G", "path_style".
/// "config=FILE" goes to `config`. Words for mount(8) itself and for systemd are passed over.
/// Errors: kInvalid for a word that is neither.
base::Result<void> take_mount_words(const std::string& words, std::map<std::string, std::string>& values,
                                    std::string& config);

/// "SHARDFS_CACHE_SIZE" for "cache-size".
std::string variable_of(const std::string& setting_name);

}  // namespace shardfs::app
