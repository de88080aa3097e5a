#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <limits>

#include "app/options.h"
#include "control/exporter.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using Value = std::string_view;

template <class T>
Result<T> whole_number(Value text, T least, T most, int number_base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, number_base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return fail(Code::kInvalid, number_base == 8
                                    ? fmt::format("\"{}\" is not a mode such as 0444", text)
                                    : fmt::format("\"{}\" is not a number from {} to {}", text, least, most));
  }
  return value;
}

Result<bool> yes_or_no(Value text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return fail(Code::kInvalid, fmt::format("\"{}\" is not true or false", text));
}

// Puts a parsed value into its place.
template <class T, class P>
Result<void> put(T& place, P parsed) {
  if (!parsed) return tl::unexpected(std::move(parsed.error()));
  place = *parsed;
  return {};
}

Result<void> put_text(std::string& place, Value text, const char* what) {
  if (text.empty()) return fail(Code::kInvalid, fmt::format("it needs {}", what));
  place = text;
  return {};
}

Result<void> endpoint_url(MountOptions& options, Value text) {
  if (!text.starts_with("http://") && !text.starts_with("https://")) {
    return fail(Code::kInvalid,
                fmt::format("\"{}\" is not an address such as https://s3.example.com or http://127.0.0.1:9000", text));
  }
  return put_text(options.endpoint_url, text, "an address");
}

Result<void> cache_eviction(MountOptions& options, Value text) {
  if (text != "next-use" && text != "lru") {
    return fail(Code::kInvalid, fmt::format("\"{}\" is neither next-use nor lru", text));
  }
  options.cache_eviction = text == "lru" ? cache::Eviction::kLeastRecentlyUsed : cache::Eviction::kNextUse;
  return {};
}

Result<void> cache_folder(MountOptions& options, Value text) {
  if (!text.starts_with('/')) return fail(Code::kInvalid, fmt::format("\"{}\" is not an absolute path", text));
  return put_text(options.cache_folder, text, "a folder");
}

// Source: below it nothing useful fits into the budget: parts under way and what waits for the disk.
constexpr uint64_t kLeastMemoryBytes = 32 << 20;

Result<void> memory_limit(MountOptions& options, Value text) {
  auto bytes = base::parse_bytes(text);
  if (bytes && *bytes < kLeastMemoryBytes) return fail(Code::kInvalid, fmt::format("\"{}\" is less than 32M", text));
  return put(options.memory_limit_bytes, std::move(bytes));
}

Result<void> max_bandwidth(MountOptions& options, Value text) {
  auto bytes = base::parse_bytes(text.ends_with("/s") ? text.substr(0, text.size() - 2) : text);
  return put(options.max_bandwidth_bytes_per_s, std::move(bytes));
}

Result<void> passthrough(MountOptions& options, Value text) {
  if (text == "auto") {
    options.passthrough = Passthrough::kAuto;
  } else if (text == "on") {
    options.passthrough = Passthrough::kOn;
  } else if (text == "off") {
    options.passthrough = Passthrough::kOff;
  } else {
    return fail(Code::kInvalid, fmt::format("\"{}\" is not auto, on or off", text));
  }
  return {};
}

Result<void> log_file(MountOptions& options, Value text) {
  if (!text.starts_with('/')) return fail(Code::kInvalid, fmt::format("\"{}\" is not an absolute path", text));
  return put_text(options.log_file, text, "a file");
}

Result<void> metrics_file(MountOptions& options, Value text) {
  if (!text.starts_with('/')) return fail(Code::kInvalid, fmt::format("\"{}\" is not an absolute path", text));
  return put_text(options.metrics_file, text, "a file or folder");
}

constexpr uint32_t kMostId = std::numeric_limits<uint32_t>::max() - 1;

std::vector<Setting> make_settings() {
  using O = MountOptions;
  const std::string store = "Store";
  const std::string cache = "Cache";
  const std::string kernel = "Files and kernel";
  const std::string daemon = "Daemon";
  return {
      {"endpoint-url", "URL", store,
       "S3 endpoint. Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, else AWS", true, endpoint_url},
      {"region", "NAME", store, "Region to sign for. Default: AWS_REGION, the profile's, else us-east-1", false,
       [](O& o, Value v) { return put_text(o.region, v, "a region"); }},
      {"profile", "NAME", store,
       "Profile in ~/.aws/config and ~/.aws/credentials, and no other place. Default: the usual places, AWS_PROFILE "
       "among them",
       true, [](O& o, Value v) { return put_text(o.profile, v, "a profile's name"); }},
      {"path-style", "", store, "Bucket in the path, not in the host name. Default: false (always on for IP addresses)",
       false, [](O& o, Value v) { return put(o.path_style, yes_or_no(v)); }},
      {"no-sign-request", "", store, "Send no keys, for public buckets. Default: false", true,
       [](O& o, Value v) { return put(o.no_sign_request, yes_or_no(v)); }},
      {"requester-pays", "", store, "Pay for requests to a bucket of another account that asks for it. Default: false",
       false, [](O& o, Value v) { return put(o.requester_pays, yes_or_no(v)); }},
      {"ca-bundle", "PATH", store,
       "File or folder of certificates to trust. Default: AWS_CA_BUNDLE, the profile's, else the system's", true,
       [](O& o, Value v) { return put_text(o.ca_bundle, v, "a file or folder"); }},
      {"connections", "N", store, "Connections to the store at once, at most. Default: 64", false,
       [](O& o, Value v) { return put(o.connections, whole_number<unsigned>(v, 1, 1024)); }},
      {"max-bandwidth", "BYTES", store, "Bytes a second to receive, at most: 500M, 1G. Default: 0, no limit", false,
       max_bandwidth},

      {"late-after", "TIME", store,
       "Ask a second time for what is much later than usual, and at least so late: 500ms, 1s. Default: 200ms", false,
       [](O& o, Value v) { return put(o.late_after, base::parse_duration(v)); }},

      {"cache-dir", "DIR", cache,
       "Cache folder on a local disk; mounts of one user share it. Default: /var/cache/shardfs "
       "for root, else $XDG_CACHE_HOME/shardfs or ~/.cache/shardfs",
       false, cache_folder},
      {"cache-size", "SIZE", cache,
       "Hard limit of the cache: 500G, or a share of the file system: 80%. 0: no cache. Default: 80%", false,
       [](O& o, Value v) { return put(o.cache_limit, base::parse_size_or_percent(v)); }},
      {"cache-min-free", "SIZE", cache, "Space that the cache leaves free on its file system: 20G, 5%. Default: 5%",
       false, [](O& o, Value v) { return put(o.cache_min_free, base::parse_size_or_percent(v)); }},
      {"cache-eviction", "POLICY", cache,
       "What leaves a full cache: next-use (what is read again latest; hits also when the set is larger than the "
       "cache) "
       "or lru. Default: next-use",
       false, cache_eviction},
      {"cache-share", "SIZE", cache,
       "What the files of this mount may take of it: 100G, or a share of the cache size: 25%. Default: 100%", false,
       [](O& o, Value v) { return put(o.cache_share, base::parse_size_or_percent(v)); }},
      {"scrub", "", cache,
       "Check all that is cached against its checksums in the background, with 5% of the disk's time. Default: false",
       false, [](O& o, Value v) { return put(o.scrub, yes_or_no(v)); }},
      {"memory-limit", "SIZE", cache, "Memory for data under way, at least 32M. Default: 256M", false, memory_limit},
      {"manifest", "FILE", store,
       "Mount the objects of this list, and list nothing: CSV or JSON lines with key, size and ETag of each", false,
       [](O& o, Value v) { return put_text(o.manifest, v, "a file"); }},
      {"metadata-ttl", "TIME", cache, "How long names and attributes are taken as known: 60s, 10m, inf. Default: 60s",
       false, [](O& o, Value v) { return put(o.metadata_ttl, base::parse_duration(v)); }},
      {"negative-ttl", "TIME", cache, "How long \"no such file\" is taken as known: 2s. Default: 2s", false,
       [](O& o, Value v) { return put(o.negative_ttl, base::parse_duration(v)); }},
      {"stale-if-error", "", cache,
       "Serve the last known names and attributes while the store does not answer. Default: true", false,
       [](O& o, Value v) { return put(o.stale_if_error, yes_or_no(v)); }},

      {"passthrough", "MODE", kernel,
       "Let the kernel read complete cache files itself: auto, on (refuse to mount without) or "
       "off. Default: auto",
       false, passthrough},
      {"read-ahead-kb", "KIB", kernel,
       "Read-ahead of the kernel on this mount, in KiB; as root only. 0: the kernel's own (128). Default: 256", false,
       [](O& o, Value v) { return put(o.read_ahead_kb, whole_number<unsigned>(v, 0, 65536)); }},
      {"extended-attributes", "", kernel,
       "Show user.shardfs.*; ls -l asks for attributes of every file, and is faster without. Default: true", false,
       [](O& o, Value v) { return put(o.extended_attributes, yes_or_no(v)); }},
      {"allow-other", "", kernel, "Other users may read. Default: true for root, else false", false,
       [](O& o, Value v) { return put(o.allow_other, yes_or_no(v)); }},
      {"uid", "UID", kernel, "Owner shown for all files. Default: yours", false,
       [](O& o, Value v) { return put(o.uid, whole_number<uint32_t>(v, 0, kMostId)); }},
      {"gid", "GID", kernel, "Group shown for all files. Default: yours", false,
       [](O& o, Value v) { return put(o.gid, whole_number<uint32_t>(v, 0, kMostId)); }},
      {"file-mode", "MODE", kernel, "Mode shown for files, octal. Default: 0444", false,
       [](O& o, Value v) { return put(o.file_mode, whole_number<uint32_t>(v, 0, 0777, 8)); }},
      {"dir-mode", "MODE", kernel, "Mode shown for folders, octal. Default: 0555", false,
       [](O& o, Value v) { return put(o.directory_mode, whole_number<uint32_t>(v, 0, 0777, 8)); }},
      {"fuse-threads", "N", kernel, "Threads that answer the kernel. Default: 0, by the number of processors", false,
       [](O& o, Value v) { return put(o.fuse_threads, whole_number<unsigned>(v, 0, 256)); }},

      {"foreground", "", daemon, "Stay in the foreground; Ctrl-C unmounts. Default: false", false,
       [](O& o, Value v) { return put(o.foreground, yes_or_no(v)); }},
      {"core-dumps", "", daemon, "Allow core dumps and debuggers; both see the keys. Default: false", false,
       [](O& o, Value v) { return put(o.core_dumps, yes_or_no(v)); }},
      {"log-level", "LEVEL", daemon, "debug, info, warning, error or off. Default: warning", false,
       [](O& o, Value v) { return put(o.log_level, base::parse_log_level(v)); }},
      {"log-file", "FILE", daemon, "Append log lines to it. Default: standard error in the foreground, else none",
       false, log_file},
      {"metrics-listen", "ADDRESS", daemon,
       "Metrics for Prometheus by HTTP: a port of 127.0.0.1, or ADDRESS:PORT. Default: none", false,
       [](O& o, Value v) { return put_text(o.metrics_listen, v, "a port"); }},
      {"metrics-file", "PATH", daemon,
       "Metrics as a file for node_exporter, each 15 s; in a folder: one for each mount. Default: none", false,
       metrics_file},
      {"metrics-labels", "LABELS", daemon, "Labels for all of them: slurm_job=7,user=ada. Default: none", false,
       [](O& o, Value v) { return put(o.metrics_labels, control::parse_labels(std::string(v))); }},
      {"oom-score-adj", "N", daemon,
       "How readily the kernel ends the daemon when memory is short, -1000 (never) to 1000. Default: -500 for root, "
       "else the caller's",
       false, [](O& o, Value v) { return put(o.oom_score_adj, whole_number<int>(v, -1000, 1000)); }},
  };
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = make_settings();
  return table;
}

std::string variable_of(const std::string& setting_name) {
  std::string variable = "SHARDFS_";
  for (const char c : setting_name)
    variable += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

}  // namespace shardfs::app
