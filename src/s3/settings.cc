#include "s3/settings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;
using base::Result;

std::string setting(const Section& section, const std::string& name) {
  const auto found = section.find(name);
  return found == section.end() ? std::string() : found->second;
}

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> values) {
  for (const auto& value : values) {
    if (!value.empty()) return value;
  }
  return {};
}

Result<void> find_ca(Settings& settings) {
  const auto& path = settings.options.ca_bundle;
  if (path.empty() || !settings.options.verify_tls) return {};
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) {
    return fail(Code::kInvalid, fmt::format("CA bundle '{}': {}", path, std::strerror(errno)), errno);
  }
  (S_ISDIR(info.st_mode) ? settings.ca_folder : settings.ca_file) = path;
  return {};
}

}  // namespace

Result<Settings> resolve_place(S3Options options, const Environment& environment) {
  const auto env = [&](const char* name) { return environment(name).value_or(""); };
  const std::string profile_name = first_of({options.profile, env("AWS_PROFILE"), "default"});
  const auto profile = load_profile(profile_name, environment);
  if (!profile) return tl::unexpected(profile.error());

  Settings out;
  const bool configured = env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") != "true";
  if (options.endpoint_url.empty() && configured) {
    options.endpoint_url =
        first_of({env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"), setting(profile->settings, "s3.endpoint_url"),
                  setting(profile->settings, "endpoint_url")});
  }
  options.region =
      first_of({options.region, env("AWS_REGION"), env("AWS_DEFAULT_REGION"), setting(profile->settings, "region")});
  options.ca_bundle = first_of({options.ca_bundle, env("AWS_CA_BUNDLE"), setting(profile->settings, "ca_bundle")});
  out.region_given = !options.region.empty();
  auto target = make_target(options.bucket, options.endpoint_url, options.region, options.path_style);
  if (!target) return tl::unexpected(target.error());
  out.target = std::move(*target);
  out.options = std::move(options);
  if (auto found = find_ca(out); !found) return tl::unexpected(found.error());
  return out;
}

Result<Settings> resolve_settings(S3Options options, const Environment& environment) {
  auto out = resolve_place(std::move(options), environment);
  if (!out || out->options.no_sign_request) return out;
  out->source = default_source(out->options.profile, out->options.key_variables,
                               {environment, out->options.region, out->ca_file, out->ca_folder});
  const StopSignal never;
  auto loaded = out->source->load(never);
  if (!loaded) return fail(Code::kPermission, std::move(loaded.error().message));
  if (!loaded->has_value()) {
    return fail(Code::kPermission, fmt::format("no credentials in {}", out->source->name()));
  }
  out->credentials = std::move(*loaded);
  return out;
}

}  // namespace shardfs::s3
