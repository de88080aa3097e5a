// The places that may give credentials, one class each (in the sources), and the order in which they are asked.
// Thread rule: as CredentialsSource.
#pragma once

#include <memory>
#include <string>

#include "s3/credentials.h"
#include "s3/key_variables.h"
#include "s3/profile_files.h"

namespace shardfs::s3 {

/// What sources see of the world around them.
struct SourceContext {
  Environment environment;
  std::string region;              // of the token service, where nothing names its address
  std::string ca_file, ca_folder;  // empty: the system's
};

inline const KeyVariables kAwsKeyVariables{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};

std::unique_ptr<CredentialsSource> environment_source(const KeyVariables& variables, Environment environment);

/// A command that prints keys as JSON. It has a minute.
std::unique_ptr<CredentialsSource> process_source(std::string command);

/// AssumeRoleWithWebIdentity with AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME.
std::unique_ptr<CredentialsSource> web_identity_source(SourceContext context);

/// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI (at `local_address`) or _FULL_URI.
std::unique_ptr<CredentialsSource> container_source(SourceContext context,
                                                    std::string local_address = "http://169.254.170.2");

/// Instance metadata, version 2 only; each of its three requests has a second.
std::unique_ptr<CredentialsSource> metadata_source(SourceContext context);

/// The keys of a role for which `aws sso login` left a token. settings: of the profile.
base::Result<Credentials> load_sso_credentials(const SourceContext& context, const Section& settings,
                                               const StopSignal& stop);

/// An explicit profile alone; else the mapped variables (if they are named), the environment, AWS_PROFILE or "default",
/// web identity, container, instance metadata.
std::unique_ptr<CredentialsSource> default_source(const std::string& explicit_profile, const KeyVariables& mapped,
                                                  SourceContext context);

/// From a JSON document with AccessKeyId, SecretAccessKey, Token or SessionToken, Expiration. origin: for messages.
/// Errors: kPermission (it says why there are none), kInvalid.
base::Result<Credentials> parse_credentials(const std::string& json, const std::string& origin);

}  // namespace shardfs::s3
