// MountPlan: what is to be mounted where, checked as far as it can be without the store.
// Thread rule: plain values.
#pragma once

#include <functional>
#include <string>

#include "app/options.h"
#include "app/url.h"

namespace shardfs::app {

struct MountPlan {
  SourceUrl source;
  std::string mountpoint;  // canonical
  MountOptions options;
  std::function<base::Result<MountOptions>()> read_options;  // again, from where they came from
};

}  // namespace shardfs::app
