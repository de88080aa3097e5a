// The XML of one listing page (ListObjectsV2, and V1 for stores that know no other).
// Thread rule: pure function.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "store/object.h"

namespace shardfs::s3 {

struct ParsedPage {
  std::vector<store::ObjectInfo> objects;  // keys decoded, in the store's order
  std::vector<std::string> prefixes;       // decoded
  bool truncated = false;
  std::string next_token;   // V2; empty when there is none
  std::string next_marker;  // V1, decoded
  bool version_1 = false;   // the store answered in V1, whatever it was asked for

  /// The greatest key or prefix of the page: where to go on when the store gives neither token nor marker.
  std::string last_name() const;
};

/// xml is overwritten. Keys are percent-decoded only if the page says that they are encoded (some stores ignore
/// encoding-type). Errors: kIntegrity, when this is no such page.
base::Result<ParsedPage> parse_list_page(std::string xml);

}  // namespace shardfs::s3
