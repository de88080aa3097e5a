#include "s3/credential_sources.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "home.h"
#include "s3/timestamps.h"
#include "scripted_server.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using test::Answer;
using test::answer;
using test::Home;
using test::id_of;
using test::ScriptedServer;
using test::SeenRequest;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

base::Result<std::optional<Credentials>> load(CredentialsSource& source) {
  const StopSignal never;
  return source.load(never);
}

std::string json_keys(const std::string& id) {
  return fmt::format(R"({{"Code": "Success", "Version": 1, "AccessKeyId": "{}", "SecretAccessKey": "SECRET",
                         "Token": "tok", "Expiration": "2031-01-02T03:04:05Z"}})",
                     id);
}

std::string role_answer(const std::string& action, const std::string& id) {
  return answer("200 OK", "Content-Type: text/xml\r\n",
                fmt::format("<{0}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{0}Result><Credentials>"
                            "<AccessKeyId>{1}</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey>"
                            "<SessionToken>tok</SessionToken><Expiration>2031-01-02T03:04:05Z</Expiration>"
                            "</Credentials></{0}Result></{0}Response>",
                            action, id));
}

std::string sts_error(std::string_view status, std::string_view code, std::string_view headers = "") {
  return answer(status, headers,
                fmt::format("<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>because</Message></Error>"
                            "</ErrorResponse>",
                            code));
}

TEST_CASE("credential_process: its keys, its failure, and what it is not told") {
  Home home;
  home.write("config", "[profile good]\ncredential_process = printf '%s' '" +
                           std::string(R"({"Version":1,"AccessKeyId":"PROC","SecretAccessKey":"s",)") +
                           R"("SessionToken":"t","Expiration":"2031-01-02T03:04:05Z"}')" +
                           "\n[profile fails]\ncredential_process = echo SECRET >&2; exit 7\n"
                           "[profile talks]\ncredential_process = echo SECRET\n"
                           "[profile open]\ncredential_process = ls /proc/self/fd | wc -l > " +
                           home.folder + "/open\n");
  const auto good = home.load("good");
  REQUIRE(id_of(good) == "PROC");
  CHECK((*good)->session_token == "t");
  CHECK((*good)->expires == parse_iso_time("2031-01-02T03:04:05Z"));
  CHECK((*good)->source == "profile 'good'");
  CHECK(home.load("fails").error().message == "credential_process ended with 7");
  CHECK(home.load("talks").error().message == "credential_process gave no JSON object");
  home.load("open");
  int open = 0;
  std::ifstream(home.folder + "/open") >> open;
  CHECK(open == 4);  // input, output, error, and the folder that ls reads
}

TEST_CASE("a role for the keys of another profile") {
  ScriptedServer sts([](size_t, const SeenRequest&) { return Answer{role_answer("AssumeRole", "ROLE")}; });
  Home home;
  home.variables["AWS_ENDPOINT_URL_STS"] = sts.url();
  home.write("credentials", "[base]\naws_access_key_id = BASE\naws_secret_access_key = s\naws_session_token = bt\n");
  home.write("config",
             "[profile p]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = base\nregion = eu-west-3\n"
             "role_session_name = me\nexternal_id = e&1\nduration_seconds = 900\n");
  const auto loaded = home.load("p");
  REQUIRE(id_of(loaded) == "ROLE");
  CHECK((*loaded)->secret_access_key == "SECRET");
  CHECK((*loaded)->session_token == "tok");
  CHECK((*loaded)->expires == parse_iso_time("2031-01-02T03:04:05Z"));
  CHECK((*loaded)->source == "profile 'p', role arn:aws:iam::1:role/x");
  const auto request = sts.requests().at(0);
  CHECK(request.method() == "POST");
  CHECK(request.body ==
        "Action=AssumeRole&DurationSeconds=900&ExternalId=e%261&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx&"
        "RoleSessionName=me&Version=2011-06-15");
  CHECK(has(request.header("authorization"), "Credential=BASE/"));
  CHECK(has(request.header("authorization"), "/eu-west-3/sts/aws4_request"));
  CHECK(request.header("x-amz-security-token") == "bt");
}

TEST_CASE("roles in a chain, from the environment, and profiles that lead in a circle") {
  ScriptedServer sts([](size_t, const SeenRequest& request) {
    return Answer{role_answer("AssumeRole", has(request.body, "outer") ? "OUTER" : "INNER")};
  });
  Home home;
  home.variables["AWS_ENDPOINT_URL_STS"] = sts.url();
  home.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  home.write("config",
             "[profile outer]\nrole_arn = outer\nsource_profile = inner\n"
             "[profile inner]\nrole_arn = inner\ncredential_source = Environment\n"
             "[profile a]\nrole_arn = a\nsource_profile = b\n[profile b]\nrole_arn = b\nsource_profile = a\n"
             "[profile self]\nrole_arn = self\nsource_profile = self\naws_access_key_id = SELF\n"
             "aws_secret_access_key = s\n[profile lonely]\nrole_arn = x\n"
             "[profile odd]\nrole_arn = x\ncredential_source = Moon\n");
  CHECK(id_of(home.load("outer")) == "OUTER");
  REQUIRE(sts.requests().size() == 2);
  CHECK(has(sts.requests()[0].header("authorization"), "Credential=ENV/"));
  CHECK(has(sts.requests()[1].header("authorization"), "Credential=INNER/"));
  CHECK(has(home.load("a").error().message, "leads back"));
  CHECK(id_of(home.load("self")) == "INNER");
  CHECK(has(sts.requests()[2].header("authorization"), "Credential=SELF/"));
  CHECK(has(home.load("lonely").error().message, "role_arn needs source_profile"));
  CHECK(has(home.load("odd").error().message, "credential_source 'Moon'"));
}

TEST_CASE("the token service: a refusal is final, an outage is tried again, a clock that is off is corrected") {
  std::string refusal = sts_error("403 Forbidden", "AccessDenied");
  ScriptedServer sts([&](size_t index, const SeenRequest& request) {
    if (index == 0) return Answer{refusal};
    if (index < 3) return Answer{sts_error("503 Service Unavailable", "ServiceUnavailable")};
    if (index == 4)
      return Answer{sts_error("403 x", "SignatureDoesNotMatch", "Date: Wed, 02 Jan 2030 03:04:05 GMT\r\n")};
    return Answer{role_answer("AssumeRole", request.header("x-amz-date").substr(0, 8))};
  });
  Home home;
  home.variables["AWS_ENDPOINT_URL_STS"] = sts.url();
  home.write("config",
             "[profile p]\nrole_arn = r\nsource_profile = p\naws_access_key_id = K\naws_secret_access_key = s\n");
  const auto refused = home.load("p");
  CHECK(refused.error().code == Code::kPermission);
  CHECK(refused.error().message == "role r: " + sts.url() + "/: 403 AccessDenied: because");
  CHECK(id_of(home.load("p")) != "error transient");
  CHECK(sts.requests().size() == 4);
  CHECK(id_of(home.load("p")) == "20300102");
  CHECK(sts.requests().size() == 6);
}

TEST_CASE("a web identity token is read anew, and sent without keys") {
  ScriptedServer sts([](size_t, const SeenRequest& request) {
    return Answer{role_answer("AssumeRoleWithWebIdentity",
                              request.body.ends_with("WebIdentityToken=second") ? "SECOND" : "FIRST")};
  });
  Home home;
  home.variables["AWS_ENDPOINT_URL_STS"] = sts.url();
  home.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = home.path("token");
  CHECK(has(home.load().error().message, "AWS_ROLE_ARN is not"));
  home.variables["AWS_ROLE_ARN"] = "arn:r";
  CHECK(has(home.load().error().message, "there is no token in " + home.path("token")));
  home.write("token", "first\n");
  const auto source = home.source();
  const auto first = load(*source);
  CHECK(id_of(first) == "FIRST");
  CHECK((*first)->source == "web identity");
  home.write("token", "second\n");
  CHECK(id_of(load(*source)) == "SECOND");
  CHECK(sts.requests()[0].header("authorization").empty());
  CHECK(has(sts.requests()[0].body, "WebIdentityToken=first"));
  // The same in a profile.
  home.variables.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  home.write("config", "[profile w]\nrole_arn = arn:w\nweb_identity_token_file = " + home.path("token") + "\n");
  CHECK(id_of(home.load("w")) == "SECOND");
}

TEST_CASE("container credentials, with the token of a file that is replaced") {
  ScriptedServer server([](size_t, const SeenRequest& request) {
    return Answer{answer("200 OK", "", json_keys(request.target() == "/v2/keys?id=1" ? "RELATIVE" : "FULL"))};
  });
  Home home;
  home.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/keys?id=1";
  const auto relative = load(*container_source(home.context(), server.url()));
  REQUIRE(id_of(relative) == "RELATIVE");
  CHECK((*relative)->session_token == "tok");
  CHECK(server.requests()[0].header("authorization").empty());
  home.variables.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  home.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url() + "/full";
  home.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = home.path("token");
  home.write("token", "one\n");
  const auto source = home.source();
  CHECK(id_of(load(*source)) == "FULL");
  home.write("token", "two\n");
  CHECK(id_of(load(*source)) == "FULL");
  CHECK(server.requests()[1].header("authorization") == "one");
  CHECK(server.requests()[2].header("authorization") == "two");
  home.write("token", "two\nX-Evil: 1\n");
  CHECK(has(load(*source).error().message, "more than one line"));
  home.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://keys.example.com/";
  CHECK(has(home.load().error().message, "neither https nor on this machine"));
  CHECK(server.requests().size() == 3);
}

TEST_CASE("instance metadata: a token first, then the role, then its keys") {
  ScriptedServer server([](size_t, const SeenRequest& request) {
    if (request.target() == "/latest/api/token") return Answer{answer("200 OK", "", "THE-TOKEN")};
    if (request.target().ends_with("/security-credentials/")) return Answer{answer("200 OK", "", "my-role")};
    return Answer{answer("200 OK", "", json_keys("IMDS"))};
  });
  Home home;
  home.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.url() + "/";
  CHECK(id_of(home.load()) == "none");  // AWS_EC2_METADATA_DISABLED
  CHECK(server.requests().empty());
  home.variables.erase("AWS_EC2_METADATA_DISABLED");
  const auto loaded = home.load();
  REQUIRE(id_of(loaded) == "IMDS");
  CHECK((*loaded)->source == "instance metadata, role my-role");
  const auto requests = server.requests();
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].method() == "PUT");
  CHECK(requests[2].target() == "/latest/meta-data/iam/security-credentials/my-role");
  CHECK(requests[2].header("x-aws-ec2-metadata-token") == "THE-TOKEN");
}

TEST_CASE("instance metadata that never answers is waited for a second, and named") {
  ScriptedServer server([](size_t, const SeenRequest&) { return Answer{"", Answer::Then::kHold, {}}; });
  Home home;
  home.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.url();
  home.variables.erase("AWS_EC2_METADATA_DISABLED");
  const auto loaded = home.load();
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code == Code::kTransient);
  CHECK(has(loaded.error().message,
            "instance metadata: no answer from " + server.url() + "/latest/api/token within 1000 ms"));
  CHECK(server.requests().size() == 1);
}

TEST_CASE("an SSO login: the cached token buys keys; without one the message says what to do") {
  ScriptedServer server([](size_t, const SeenRequest&) {
    return Answer{answer("200 OK", "",
                         R"({"roleCredentials": {"accessKeyId": "SSO", "secretAccessKey": "s", "sessionToken": "t",
                             "expiration": 1924999445000}})")};
  });
  Home home;
  home.variables["AWS_ENDPOINT_URL_SSO"] = server.url();
  home.write("config",
             "[profile s]\nsso_session = corp\nsso_account_id = 42\nsso_role_name = reader\n"
             "[sso-session corp]\nsso_start_url = https://corp.example\nsso_region = eu-west-1\n"
             "[profile old]\nsso_start_url = https://corp.example\nsso_region = eu-west-1\nsso_account_id = 42\n"
             "sso_role_name = reader\n");
  CHECK(has(home.load("s").error().message, "run aws sso login"));
  // sha1("corp"), as `printf corp | sha1sum` says.
  const std::string session_file = "sso/cache/" + std::string("ee0bfd2552fbd840c02cc48b6e823320543c450f") + ".json";
  home.write(session_file, R"({"accessToken": "BEARER", "expiresAt": "2020-01-01T00:00:00Z"})");
  CHECK(has(home.load("s").error().message, "has expired; run aws sso login"));
  home.write(session_file, R"({"accessToken": "BEARER", "expiresAt": "2031-01-01T00:00:00Z"})");
  const auto loaded = home.load("s");
  REQUIRE(id_of(loaded) == "SSO");
  CHECK((*loaded)->expires == base::WallTime(std::chrono::milliseconds(1924999445000)));
  CHECK(server.requests()[0].target() == "/federation/credentials?account_id=42&role_name=reader");
  CHECK(server.requests()[0].header("x-amz-sso_bearer_token") == "BEARER");
  home.write("sso/cache/bf76a79a0d2919005ac43fa78017635692db6d30.json",
             R"({"accessToken": "OLD", "expiresAt": "2031-01-01T00:00:00Z"})");
  CHECK(id_of(home.load("old")) == "SSO");
  CHECK(server.requests()[1].header("x-amz-sso_bearer_token") == "OLD");
}

TEST_CASE("variables that the site maps come first; their absence is none") {
  Home home;
  home.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  const KeyVariables mapped{"SITE_KEY", "SITE_SECRET", ""};
  CHECK(id_of(load(*default_source("", mapped, home.context()))) == "ENV");
  home.variables["SITE_KEY"] = "SITE";
  home.variables["SITE_SECRET"] = "s";
  const auto loaded = load(*default_source("", mapped, home.context()));
  CHECK(id_of(loaded) == "SITE");
  CHECK((*loaded)->source == "SITE_KEY");
}

TEST_CASE("no secret is in any message") {
  const std::string said[] = {
      parse_credentials(R"({"SecretAccessKey": "SECRET"})", "x").error().message,
      parse_credentials(R"({"AccessKeyId": "a", "SecretAccessKey": "SECRET", "Expiration": "SECRET"})", "x")
          .error()
          .message,
      parse_credentials("SECRET", "x").error().message};
  for (const auto& message : said) CHECK_FALSE(has(message, "SECRET"));
}

}  // namespace
}  // namespace shardfs::s3
