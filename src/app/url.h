// SourceUrl: s3://BUCKET[/PREFIX], the thing that is mounted.
// Thread rule: plain values and pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace shardfs::app {

struct SourceUrl {
  std::string bucket;
  std::string prefix;  // "" or "a/b/" (with the slash at the end)

  std::string text() const;  // as the user would write it, without the last slash
};

/// Errors: kInvalid, with what is wrong and how it should look.
base::Result<SourceUrl> parse_url(std::string_view text);

}  // namespace shardfs::app
