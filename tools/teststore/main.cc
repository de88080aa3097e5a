// The program teststore: a Server that lasts until SIGTERM, SIGINT or, if asked, the end of its parent.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "teststore/teststore.h"

namespace {

using shardfs::teststore::Options;

// Whole or not at all, since the reader waits for the file to appear.
bool write_whole(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".new";
  std::ofstream out(unfinished);
  out << text;
  out.close();
  return out && ::rename(unfinished.c_str(), path.c_str()) == 0;
}

int run(const Options& options, const std::string& root, const std::string& port_file) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  shardfs::teststore::Server server(options);
  if (!root.empty()) {
    if (auto put = server.objects().put_tree(root); !put) {
      fmt::print(stderr, "teststore: {}\n", put.error().message);
      return 1;
    }
  }
  if (auto started = server.start(); !started) {
    fmt::print(stderr, "teststore: {}\n", started.error().message);
    return 1;
  }
  if (!port_file.empty() && !write_whole(port_file, fmt::format("{}\n", server.port()))) {
    fmt::print(stderr, "teststore: cannot write {}\n", port_file);
    return 1;
  }
  fmt::print("{}\n", server.endpoint());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  server.stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = ::getppid();
  Options options;
  std::string root, port_file;
  bool no_auth = false, die_with_parent = false;
  int64_t first_byte_ms = 0, list_ms = 0;
  double connection_mbps = 0;
  CLI::App app("An S3 server for tests: see tools/teststore/teststore.h and faults.h.");
  app.add_option("--address", options.address)->capture_default_str();
  app.add_option("--port", options.port, "0: any free one")->capture_default_str();
  app.add_option("--port-file", port_file, "written once the server answers");
  app.add_option("--access-key", options.access_key)->capture_default_str();
  app.add_option("--secret-key", options.secret_key)->capture_default_str();
  app.add_option("--region", options.region)->capture_default_str();
  app.add_flag("--no-auth", no_auth, "unsigned requests pass too");
  app.add_flag("--tls", options.tls, "with a certificate made at the start, or --certificate and --key");
  app.add_option("--cert-file", options.write_certificate_to, "where to write the certificate for clients");
  auto* certificate = app.add_option("--certificate", options.certificate_file, "PEM");
  auto* key = app.add_option("--key", options.key_file, "PEM");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--first-byte-ms", first_byte_ms, "before each answer to a GET or HEAD of an object");
  app.add_option("--list-ms", list_ms, "before each page of a listing");
  app.add_option("--connection-mbps", connection_mbps, "10^6 bytes a second for each connection");
  app.add_option("--max-keys", options.max_keys, "in one page of a listing")->capture_default_str();
  app.add_option("--connections", options.connection_limit, "at the same time; more wait")->capture_default_str();
  app.add_option("--root", root, "a folder: every folder in it is a bucket");
  app.add_flag("--die-with-parent", die_with_parent, "end when the process that started this one does");
  CLI11_PARSE(app, argc, argv);
  if (die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) return 1;  // it had ended before
  }
  options.require_signature = !no_auth;
  options.shape = {std::chrono::milliseconds(first_byte_ms), std::chrono::milliseconds(list_ms),
                   static_cast<uint64_t>(connection_mbps * 1e6)};
  return run(options, root, port_file);
}
