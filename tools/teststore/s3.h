// S3: what the server answers when it behaves. Objects, listings, buckets; no signature, no fault, no connection.
// Thread rule: thread-safe, like the Objects it works on.
#pragma once

#include <cstdint>
#include <string>

#include "teststore/message.h"
#include "teststore/objects.h"

namespace shardfs::teststore {

struct S3Rules {
  std::string region;
  uint32_t max_keys = 1000;

  // What some stores do with listings; see faults.h.
  bool ignore_v2 = false;
  bool ignore_encoding = false;
  bool repeat_page = false;
  bool reverse = false;
};

/// The range asked for, within the object as it is now; {0, 0} when there is none.
AskedRange asked_range(const Request& request, const Objects& objects);

/// Carries the request out. A PUT's body is moved from.
Reply answer(Request& request, Objects& objects, const S3Rules& rules);

/// "bytes 0-9/100"
std::string content_range(uint64_t begin, uint64_t end, uint64_t size);

}  // namespace shardfs::teststore
