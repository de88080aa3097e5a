#include "s3/credentials.h"

#include <doctest/doctest.h>

#include "home.h"
#include "s3/settings.h"

namespace shardfs::s3 {
namespace {

using test::Home;
using test::id_of;

using base::Code;

TEST_CASE("nothing anywhere is no error of the chain") { CHECK(id_of(Home().load()) == "none"); }

struct FixedSource final : CredentialsSource {
  FixedSource(std::string title, Loaded gives) : title(std::move(title)), gives(std::move(gives)) {}
  Loaded load(const StopSignal&) override { return gives; }
  std::string name() const override { return title; }
  std::string title;
  Loaded gives;
};

base::Result<std::optional<Credentials>> load_chain(std::vector<CredentialsSource::Loaded> gives) {
  std::vector<std::unique_ptr<CredentialsSource>> sources;
  for (auto& loaded : gives) {
    sources.push_back(std::make_unique<FixedSource>("place" + std::to_string(sources.size()), std::move(loaded)));
  }
  const StopSignal never;
  return chain_source(std::move(sources))->load(never);
}

TEST_CASE("a place that fails is passed over, and named when no other has keys") {
  const CredentialsSource::Loaded none = std::optional<Credentials>();
  const CredentialsSource::Loaded keys = std::optional(Credentials{"KEY", "s", {}, {}, false, {}});
  const CredentialsSource::Loaded broken = base::fail(Code::kInvalid, "is broken"),
                                  down = base::fail(Code::kTimeout, "is down");
  CHECK(id_of(load_chain({none, broken, down, keys})) == "KEY");
  CHECK(id_of(load_chain({none, none})) == "none");
  const auto refused = load_chain({none, broken});
  CHECK(refused.error().code == Code::kPermission);
  CHECK(refused.error().message == "no credentials: place0: has none; place1: is broken");
  CHECK(load_chain({down, broken}).error().code == Code::kTransient);  // it may come back
  CHECK(load_chain({base::fail(Code::kCancelled, "x"), keys}).error().code == Code::kCancelled);
}

TEST_CASE("the order of places") {
  Home home;
  home.write("credentials",
             "# a comment\n[default]\naws_access_key_id = DEF\naws_secret_access_key = s/+=1\n\n"
             "[other]\naws_access_key_id=OTHER\naws_secret_access_key=s\naws_session_token = tok==\n");
  CHECK(id_of(home.load()) == "DEF");
  CHECK((*home.load())->secret_access_key == "s/+=1");
  CHECK((*home.load("other"))->session_token == "tok==");
  home.variables["AWS_PROFILE"] = "other";
  CHECK(id_of(home.load()) == "OTHER");
  home.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  CHECK(id_of(home.load()) == "ENV");
  CHECK(id_of(home.load("default")) == "DEF");  // an explicit profile wins over the environment's keys
}

TEST_CASE("what is asked for by name must be there") {
  Home home;
  home.write("config", "[profile keyless]\nregion = eu-west-1\n[profile process]\ncredential_process = exit 3\n");
  CHECK(id_of(home.load("absent")) == "error permission");
  CHECK(id_of(home.load("keyless")) == "error permission");
  CHECK(id_of(home.load("process")) == "error permission");
  CHECK(home.load("process").error().message.find("credential_process ended with 3") != std::string::npos);
  home.variables["AWS_ACCESS_KEY_ID"] = "HALF";
  CHECK(id_of(home.load()) == "error permission");
}

TEST_CASE("keys in the config file, files elsewhere") {
  Home home;
  home.write("my-config", "[profile p]\r\naws_access_key_id = CONF\r\naws_secret_access_key = s\r\n");
  home.variables["AWS_CONFIG_FILE"] = home.folder + "/.aws/my-config";
  CHECK(id_of(home.load("p")) == "CONF");
  home.write("my-credentials", "[p]\naws_access_key_id = CRED\n");
  home.variables["AWS_SHARED_CREDENTIALS_FILE"] = home.folder + "/.aws/my-credentials";
  CHECK(id_of(home.load("p")) == "CRED");
}

TEST_CASE("secrets are in no message") {
  Home home;
  home.write("credentials", "[p]\naws_secret_access_key = TOPSECRET\naws_session_token = TOPSECRET\n");
  const auto loaded = home.load("p");
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().message.find("TOPSECRET") == std::string::npos);
}

TEST_CASE("settings from options, environment and profile, in this order") {
  Home home;
  home.write(
      "config",
      "[default]\nregion = ap-south-1\nservices = mine\n"
      "[services mine]\ns3 =\n  endpoint_url = http://127.0.0.1:1\n[profile q]\nendpoint_url = http://127.0.0.1:2\n");
  S3Options options;
  options.bucket = "b";
  options.no_sign_request = true;
  auto settings = resolve_settings(options, home.environment());
  REQUIRE(settings.has_value());
  CHECK(settings->target.region == "ap-south-1");
  CHECK(settings->region_given);
  CHECK(settings->target.endpoint.text() == "http://127.0.0.1:1");
  CHECK(settings->source == nullptr);
  options.profile = "q";
  CHECK(resolve_settings(options, home.environment())->target.endpoint.text() == "http://127.0.0.1:2");
  CHECK_FALSE(resolve_settings(options, home.environment())->region_given);
  home.variables["AWS_DEFAULT_REGION"] = "eu-west-1";
  home.variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:3";
  CHECK(resolve_settings(options, home.environment())->target.region == "eu-west-1");
  CHECK(resolve_settings(options, home.environment())->target.endpoint.text() == "http://127.0.0.1:3");
  home.variables["AWS_REGION"] = "eu-west-2";
  home.variables["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:4";
  CHECK(resolve_settings(options, home.environment())->target.region == "eu-west-2");
  CHECK(resolve_settings(options, home.environment())->target.endpoint.text() == "http://127.0.0.1:4");
  options.region = "us-west-2";
  options.endpoint_url = "http://127.0.0.1:5";
  CHECK(resolve_settings(options, home.environment())->target.region == "us-west-2");
  CHECK(resolve_settings(options, home.environment())->target.endpoint.text() == "http://127.0.0.1:5");
}

TEST_CASE("settings that can't work are refused at once") {
  Home home;
  S3Options options;
  options.bucket = "b";
  CHECK(resolve_settings(options, home.environment()).error().code == Code::kPermission);  // no credentials
  options.no_sign_request = true;
  options.ca_bundle = home.folder + "/absent.pem";
  CHECK(resolve_settings(options, home.environment()).error().code == Code::kInvalid);
  options.ca_bundle = home.folder;
  CHECK(resolve_settings(options, home.environment())->ca_folder == home.folder);
  home.write("ca.pem", "");
  options.ca_bundle.clear();
  home.variables["AWS_CA_BUNDLE"] = home.folder + "/.aws/ca.pem";
  CHECK(resolve_settings(options, home.environment())->ca_file == home.folder + "/.aws/ca.pem");
}

}  // namespace
}  // namespace shardfs::s3
