// Home: a home folder for one test, with an environment that points to it and to nothing outside of the machine.
// Thread rule: thread-compatible.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "s3/credential_sources.h"

namespace shardfs::s3::test {

struct Home {
  Home() {
    char name[] = "/tmp/shardfs-s3-XXXXXX";
    folder = mkdtemp(name);
    std::filesystem::create_directory(folder + "/.aws");
    variables["HOME"] = folder;
    variables["AWS_EC2_METADATA_DISABLED"] = "true";
  }
  ~Home() { std::filesystem::remove_all(folder); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  /// Below .aws.
  std::string path(const std::string& name) const { return folder + "/.aws/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  Environment environment() const {
    return [copy = variables](const std::string& name) -> std::optional<std::string> {
      const auto found = copy.find(name);
      if (found == copy.end() || found->second.empty()) return std::nullopt;
      return found->second;
    };
  }
  SourceContext context() const { return {environment(), {}, {}, {}}; }
  std::unique_ptr<CredentialsSource> source(const std::string& profile = "") const {
    return default_source(profile, {}, context());
  }
  base::Result<std::optional<Credentials>> load(const std::string& profile = "") const {
    const StopSignal never;
    return source(profile)->load(never);
  }

  std::string folder;
  std::map<std::string, std::string> variables;
};

inline std::string id_of(const base::Result<std::optional<Credentials>>& loaded) {
  if (!loaded) return "error " + std::string(base::name_of(loaded.error().code));
  return loaded->has_value() ? (*loaded)->access_key_id : "none";
}

}  // namespace shardfs::s3::test
