// A started server without signatures, with bucket "b", for the tests of this folder.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "raw_client.h"
#include "teststore/teststore.h"

namespace shardfs::teststore {

struct Started {
  Started() : server(unsigned_options()) {
    REQUIRE(server.start());
    server.make_bucket("b");
  }

  static Options unsigned_options() {
    Options options;
    options.require_signature = false;
    return options;
  }

  RawClient connect() const { return RawClient(server.port()); }
  /// On a connection of its own.
  RawReply ask(std::string_view line, std::string_view headers = {}, std::string_view body = {}) const {
    return connect().ask(line, headers, body);
  }

  Server server;
};

}  // namespace shardfs::teststore
