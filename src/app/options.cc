#include "app/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr const char* kStoreVariables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
};

// A mount that ends takes its job with it: ended after ordinary processes, before the node's own services (-1000).
constexpr int kRootOomScore = -500;

std::optional<std::string> real_environment(const std::string& variable) {
  const char* const value = ::getenv(variable.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string home() { return real_environment("HOME").value_or(""); }

std::string default_cache_folder(const OptionSources& sources) {
  if (::geteuid() == 0) return "/var/cache/shardfs";
  if (const auto cache_home = sources.environment("XDG_CACHE_HOME"); cache_home && cache_home->starts_with('/')) {
    return *cache_home + "/shardfs";
  }
  return sources.environment("HOME").value_or("") + "/.cache/shardfs";
}

Result<void> apply(MountOptions& options, const Setting& setting, const std::string& value, const std::string& where) {
  auto applied = setting.apply(options, value);
  if (applied) return {};
  return fail(Code::kInvalid, fmt::format("{}: {}", where, applied.error().message));
}

/// By what they give: the names of the site's variables.
using Mapped = std::map<std::string, std::string>;

Result<void> apply_file(MountOptions& options, Mapped& mapped, const OptionSources::File& file) {
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream) {
    const int error = errno;
    if (!file.required && (error == ENOENT || error == ENOTDIR)) return {};
    return base::fail_errno(Code::kInvalid, "read the configuration " + file.path, error);
  }
  std::error_code unknown;
  if (std::filesystem::is_directory(file.path, unknown)) {
    return base::fail_errno(Code::kInvalid, "read the configuration " + file.path, EISDIR);
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto values = parse_toml(text, file.path);
  if (!values) return tl::unexpected(values.error());
  constexpr std::string_view kVariables = "variables.";
  for (const auto& [name, value] : *values) {
    if (name.starts_with(kVariables)) mapped[name.substr(kVariables.size())] = value;
  }
  for (const Setting& setting : settings()) {
    const auto value = values->find(setting.name);
    if (value == values->end()) continue;
    if (auto applied = apply(options, setting, value->second, fmt::format("{}: {}", file.path, setting.name));
        !applied) {
      return applied;
    }
    if (setting.of_store && !file.of_site) options.store_given_by_job = true;
  }
  return {};
}

Result<void> apply_mapped(MountOptions& options, const Mapped& mapped, const OptionSources& sources) {
  const auto name = [&](const char* gives) {
    const auto found = mapped.find(gives);
    return found == mapped.end() ? std::string() : found->second;
  };
  const auto value = [&](const std::string& variable) {
    return variable.empty() ? std::string() : sources.environment(variable).value_or("");
  };
  for (const Setting& setting : settings()) {
    const std::string variable = name(setting.name.c_str());
    const std::string text = value(variable);
    if (text.empty()) continue;
    if (auto applied = apply(options, setting, text, fmt::format("{} (for {})", variable, setting.name)); !applied) {
      return applied;
    }
    if (setting.of_store) options.store_given_by_job = true;
  }
  options.key_variables = {name("access-key-id"), name("secret-access-key"), name("session-token")};
  if (!value(options.key_variables.access_key_id).empty()) options.store_given_by_job = true;
  std::string bucket = value(name("bucket")), prefix = value(name("prefix"));
  if (bucket.empty()) return {};
  if (!bucket.starts_with("s3://")) bucket.insert(0, "s3://");
  while (bucket.ends_with('/')) bucket.pop_back();
  prefix.erase(0, prefix.find_first_not_of('/'));
  options.mapped_source = prefix.empty() ? bucket : bucket + "/" + prefix;
  return {};
}

// Keys and proxies that the environment brings are the job's, whoever set them.
bool environment_names_a_store(const OptionSources& sources) {
  return std::any_of(std::begin(kStoreVariables), std::end(kStoreVariables),
                     [&](const char* name) { return sources.environment(name).has_value(); });
}

}  // namespace

OptionSources default_sources(std::map<std::string, std::string> command_line, const std::string& config) {
  OptionSources sources;
  sources.command_line = std::move(command_line);
  sources.environment = real_environment;
  if (!config.empty()) {
    sources.files.push_back({config, true, false});
    return sources;
  }
  sources.files.push_back({"/etc/shardfs/config.toml", false, true});
  if (!home().empty()) sources.files.push_back({home() + "/.config/shardfs/config.toml", false, false});
  return sources;
}

void prepare_environment() {
  for (const char* name : {"AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
                           "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}) {
    const char* const value = ::getenv(name);
    if (value == nullptr || *value == '\0' || *value == '/' || *value == '~') continue;
    ::setenv(name, std::filesystem::absolute(value).c_str(), 1);
  }
  if (const char* const proxy = ::getenv("HTTP_PROXY")) ::setenv("http_proxy", proxy, 0);
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& names) {
  // Of the program beside its settings, and of its tests and tools.
  static constexpr std::string_view kOthers[] = {"SHARDFS_CONFIG", "SHARDFS_RUNTIME_DIR", "SHARDFS_BUILD"};
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (!name.starts_with("SHARDFS_") || name.starts_with("SHARDFS_TEST") || name.starts_with("SHARDFS_DEMO_"))
      continue;
    if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers)) continue;
    const bool known = std::any_of(settings().begin(), settings().end(),
                                   [&](const Setting& setting) { return variable_of(setting.name) == name; });
    if (!known) unknown.push_back(name);
  }
  return unknown;
}

Result<MountOptions> resolve_options(const OptionSources& sources) {
  MountOptions options;
  options.cache_folder = default_cache_folder(sources);
  options.uid = ::geteuid();
  options.gid = ::getegid();
  options.allow_other = ::geteuid() == 0;
  if (::geteuid() == 0) options.oom_score_adj = kRootOomScore;
  options.store_given_by_job = environment_names_a_store(sources);

  Mapped mapped;
  for (const auto& file : sources.files) {
    if (auto applied = apply_file(options, mapped, file); !applied) return tl::unexpected(applied.error());
  }
  if (auto applied = apply_mapped(options, mapped, sources); !applied) return tl::unexpected(applied.error());
  for (const Setting& setting : settings()) {
    const std::string variable = variable_of(setting.name);
    const auto value = sources.environment(variable);
    if (!value || value->empty()) continue;
    if (auto applied = apply(options, setting, *value, variable); !applied) return tl::unexpected(applied.error());
    if (setting.of_store) options.store_given_by_job = true;
  }
  for (const Setting& setting : settings()) {
    const auto value = sources.command_line.find(setting.name);
    if (value == sources.command_line.end()) continue;
    if (auto applied = apply(options, setting, value->second, "--" + setting.name); !applied) {
      return tl::unexpected(applied.error());
    }
    if (setting.of_store) options.store_given_by_job = true;
  }
  return options;
}

}  // namespace shardfs::app
