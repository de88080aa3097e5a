#include "s3/credentials.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "s3/settings.h"

namespace shardfs::s3 {
namespace {

using base::Code;

/// A home folder with an environment that points to it.
struct Home {
  Home() {
    char name[] = "/tmp/shardfs-s3-XXXXXX";
    folder = mkdtemp(name);
    std::filesystem::create_directory(folder + "/.aws");
    variables["HOME"] = folder;
  }
  ~Home() { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/.aws/" + name) << text;
  }
  Environment environment() const {
    return [copy = variables](const std::string& name) -> std::optional<std::string> {
      const auto found = copy.find(name);
      if (found == copy.end() || found->second.empty()) return std::nullopt;
      return found->second;
    };
  }
  base::Result<std::optional<Credentials>> load(const std::string& profile = "") const {
    return default_source(profile, environment())->load();
  }

  std::string folder;
  std::map<std::string, std::string> variables;
};

std::string id_of(const base::Result<std::optional<Credentials>>& loaded) {
  if (!loaded) return "error " + std::string(base::name_of(loaded.error().code));
  return loaded->has_value() ? (*loaded)->access_key_id : "none";
}

TEST_CASE("nothing anywhere is no error of the chain") { CHECK(id_of(Home().load()) == "none"); }

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
  home.write("config", "[profile keyless]\nregion = eu-west-1\n[profile process]\ncredential_process = /bin/x\n");
  CHECK(id_of(home.load("absent")) == "error permission");
  CHECK(id_of(home.load("keyless")) == "error permission");
  CHECK(id_of(home.load("process")) == "error permission");
  CHECK(home.load("process").error().message.find("credential_process") != std::string::npos);
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

base::Result<bool> renew(CredentialsKeeper& keeper, std::shared_ptr<const Credentials> seen) {
  std::promise<base::Result<bool>> promise;
  keeper.renew(std::move(seen), [&](base::Result<bool> differ) { promise.set_value(std::move(differ)); });
  return promise.get_future().get();
}

std::string differs(const base::Result<bool>& renewed) {
  return renewed ? (*renewed ? "true" : "false") : "error " + std::string(base::name_of(renewed.error().code));
}

TEST_CASE("the keeper reads the files again, once for all who saw the old keys") {
  Home home;
  const auto write_keys = [&](const std::string& id) {
    home.write("credentials", "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = s\n");
  };
  write_keys("ONE");
  auto source = default_source("", home.environment());
  auto first = source->load();
  CredentialsKeeper keeper(std::move(source), **first);
  CHECK(keeper.signs());
  const auto one = keeper.current();
  CHECK(one->access_key_id == "ONE");
  CHECK(differs(renew(keeper, one)) == "false");  // read again, and the same
  write_keys("TWO");
  CHECK(differs(renew(keeper, keeper.current())) == "true");
  CHECK(keeper.current()->access_key_id == "TWO");
  write_keys("THREE");
  CHECK(differs(renew(keeper, one)) == "true");  // TWO came after ONE was seen: not read again
  CHECK(keeper.current()->access_key_id == "TWO");
  home.write("credentials", "");
  CHECK(renew(keeper, keeper.current()).error().code == Code::kPermission);
  CHECK(keeper.current()->access_key_id == "TWO");
}

}  // namespace
}  // namespace shardfs::s3
