// Listing: one page of ListObjectsV2 or ListObjects (V1), from a bucket's map to XML.
// A page holds at most max-keys entries, keys and common prefixes together, in byte order; tokens are opaque.
// Thread rule: pure functions; the caller holds the bucket's lock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "teststore/message.h"
#include "teststore/objects.h"

namespace shardfs::teststore {

struct ListQuery {
  bool v2 = true;
  std::string bucket;
  std::string prefix;
  std::string delimiter;
  std::string start_after;  // V1: marker
  std::string continuation;
  bool encode_url = false;
  uint32_t max_keys = 1000;

  // What some stores do; see faults.h.
  bool repeat_page = false;  // the token of the next page leads to this one again
  bool reverse = false;      // the entries of a page in falling order
};

struct Page {
  std::vector<std::pair<std::string, ObjectPtr>> objects;
  std::vector<std::string> prefixes;
  bool truncated = false;
  std::string last;  // the last key or common prefix of the page
};

/// Errors: kInvalid with S3's word for it (InvalidArgument) as the message.
base::Result<ListQuery> parse_list_query(const Request& request, uint32_t max_keys_limit);

Page list_page(const Bucket& bucket, const ListQuery& query);
std::string page_xml(const Page& page, const ListQuery& query);

}  // namespace shardfs::teststore
