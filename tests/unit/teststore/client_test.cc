// The server seen by another implementation of HTTP, TLS and the signature: libcurl.
#include <curl/curl.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "teststore/teststore.h"

namespace shardfs::teststore {
namespace {

size_t append(char* bytes, size_t size, size_t count, void* to) {
  static_cast<std::string*>(to)->append(bytes, size * count);
  return size * count;
}

struct Curl {
  Curl() { curl_easy_setopt(handle, CURLOPT_NOPROXY, "*"); }
  ~Curl() { curl_easy_cleanup(handle); }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;

  // The status; 0 when the transfer failed.
  long get(const std::string& url) {
    body.clear();
    curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &body);
    code = curl_easy_perform(handle);
    long status = 0;
    if (code == CURLE_OK) curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  CURL* handle = curl_easy_init();
  CURLcode code = CURLE_OK;
  std::string body;
};

Options tls_options() {
  Options options;
  options.tls = true;
  options.require_signature = false;
  options.write_certificate_to = "/tmp/teststore-test-" + std::to_string(::getpid()) + ".pem";
  return options;
}

TEST_CASE("TLS with a certificate made at the start, trusted by its file only") {
  const Options options = tls_options();
  Server server(options);
  REQUIRE(server.start());
  server.put_generated("b", "k", 3000000, 8);
  server.put("b", "small", "hello");
  Curl curl;
  CHECK(curl.get(server.endpoint() + "/b/k") == 0);
  CHECK(curl.code == CURLE_PEER_FAILED_VERIFICATION);
  curl_easy_setopt(curl.handle, CURLOPT_CAINFO, options.write_certificate_to.c_str());
  CHECK(curl.get(server.endpoint() + "/b/k") == 200);
  CHECK((curl.body == generated(8, 0, 3000000)));
  CHECK(curl.get("https://localhost:" + std::to_string(server.port()) + "/b/small") == 200);
  CHECK(curl.body == "hello");
  curl_easy_setopt(curl.handle, CURLOPT_RANGE, "1000-60999");
  for (const Action action : {Action::kReset, Action::kClose}) {
    Fault fault;
    fault.action = action;
    fault.at_byte = 12345;
    server.add_fault(fault);
    CHECK(curl.get(server.endpoint() + "/b/k") == 0);
    CHECK((curl.body == generated(8, 1000, 1000 + 12345)));
  }
  CHECK(curl.get(server.endpoint() + "/b/k") == 206);
  std::remove(options.write_certificate_to.c_str());
}

TEST_CASE("libcurl's own signatures are accepted, and refused with the wrong secret") {
  Server server;
  REQUIRE(server.start());
  server.put("b", "dir/k", "hello");
  Curl curl;
  CHECK(curl.get(server.endpoint() + "/b/dir/k") == 403);
  CHECK(curl.body.find("<Code>AccessDenied</Code>") != std::string::npos);
  curl_easy_setopt(curl.handle, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
  // libcurl 7.88 signs but does not send the hash of the payload unless it is given.
  struct curl_slist* headers = curl_slist_append(nullptr, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
  curl_easy_setopt(curl.handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl.handle, CURLOPT_USERPWD, "TESTSTOREKEY:teststore-secret");
  CHECK(curl.get(server.endpoint() + "/b/dir/k") == 200);
  CHECK(curl.body == "hello");
  curl_easy_setopt(curl.handle, CURLOPT_USERPWD, "TESTSTOREKEY:wrong");
  CHECK(curl.get(server.endpoint() + "/b/dir/k") == 403);
  CHECK(curl.body.find("<Code>SignatureDoesNotMatch</Code>") != std::string::npos);
  curl_easy_setopt(curl.handle, CURLOPT_USERPWD, "OTHER:secret");
  CHECK(curl.get(server.endpoint() + "/b/dir/k") == 403);
  CHECK(curl.body.find("<Code>InvalidAccessKeyId</Code>") != std::string::npos);
  server.set_credentials("OTHER", "secret");
  CHECK(curl.get(server.endpoint() + "/b/dir/k") == 200);
  curl_slist_free_all(headers);
}

TEST_CASE("the control plane") {
  Server server;
  REQUIRE(server.start());
  Curl curl;
  const auto control = [&](const std::string& path, const nlohmann::json& argument = {}) {
    const std::string text = argument.is_null() ? "{}" : argument.dump();
    curl_easy_setopt(curl.handle, CURLOPT_COPYPOSTFIELDS, text.c_str());
    const long status = curl.get(server.endpoint() + "/_teststore/" + path);
    curl_easy_setopt(curl.handle, CURLOPT_HTTPGET, 1L);
    return status;
  };
  CHECK(control("put", {{"bucket", "b"}, {"key", "g"}, {"size", 100}, {"seed", 5}}) == 200);
  CHECK(control("put", {{"bucket", "b"}, {"key_base64", "/w=="}, {"bytes_base64", "aGVsbG8="}}) == 200);
  CHECK(server.objects().find("b", "\xff")->bytes == "hello");
  CHECK(server.objects().find("b", "g")->seed == 5);
  CHECK(control("fault", {{"action", "status"}, {"status", 500}, {"match", {{"kind", "get"}, {"key", "g*"}}}}) == 200);
  const auto id = nlohmann::json::parse(curl.body)["id"].get<uint64_t>();
  CHECK(curl.get(server.endpoint() + "/b/g") == 403);  // a bad signature meets no fault
  CHECK(server.fired(id) == 0);
  CHECK(control("hold", {{"match", {{"kind", "list"}}}}) == 200);
  CHECK(curl.get(server.endpoint() + "/_teststore/waiting?count=0") == 200);
  CHECK(nlohmann::json::parse(curl.body) == nlohmann::json{{"reached", true}, {"waiting", 0}});
  CHECK(control("release") == 200);
  CHECK(control("shape", {{"first_byte_ms", 1}, {"connection_mbps", 100}}) == 200);
  CHECK(curl.get(server.endpoint() + "/_teststore/stats") == 200);
  CHECK(nlohmann::json::parse(curl.body)["requests"]["get"] == 1);
  CHECK(curl.get(server.endpoint() + "/_teststore/log") == 200);
  CHECK(nlohmann::json::parse(curl.body).at(0)["status"] == 403);
  CHECK(control("remove", {{"bucket", "b"}, {"key", "g"}}) == 200);
  CHECK(server.objects().find("b", "g") == nullptr);
  CHECK(control("reset") == 200);
  CHECK(server.stats().of(Kind::kGet) == 0);
  CHECK(control("clear_faults") == 200);

  CHECK(control("fault", {{"action", "no such"}}) == 400);
  CHECK(control("fault", {{"at_byte", "x"}, {"action", "reset"}}) == 400);
  CHECK(control("put", {{"key", "no bucket"}}) == 400);
  CHECK(control("nothing") == 404);
}

}  // namespace
}  // namespace shardfs::teststore
