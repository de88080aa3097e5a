// The two files in which AWS tools keep profiles: ~/.aws/credentials and ~/.aws/config.
// Not the choice among sources: credentials.h and settings.h do that.
// Thread rule: pure functions; reading blocks on local I/O.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::s3 {

/// The process's environment, or a test's.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// Empty values count as absent.
Environment process_environment();

/// Settings of one section; a nested one ("s3 =" with indented lines below) is "s3.name".
using Section = std::map<std::string, std::string>;

/// Section names as in the file ("default", "profile x", "services y"). Lines that make no sense are skipped.
std::map<std::string, Section> parse_ini(std::string_view text);

struct Profile {
  std::string name;
  bool found = false;   // in either file
  Section settings;     // both files together; the credentials file wins
  std::string sources;  // the files looked at, for messages
};

/// "[name]" of the config file, such as "sso-session x"; empty if there is none. Errors: as load_profile.
base::Result<Section> load_config_section(const std::string& name, const Environment& environment);

/// "~/.aws/" + name.
std::string aws_path(const std::string& name, const Environment& environment);

/// Nothing if there is no such file. Errors: kInvalid when it is there but can't be read.
base::Result<std::optional<std::string>> read_file(const std::string& path);

/// The files named by AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, else in ~/.aws. An absent file is an empty one.
/// Errors: kInvalid when a file is there but can't be read.
base::Result<Profile> load_profile(const std::string& name, const Environment& environment);

}  // namespace shardfs::s3
