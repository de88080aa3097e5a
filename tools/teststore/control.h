// Control: the server's own interface under /_teststore/, JSON both ways, without signature. The paths are in
// control.cc. Thread rule: thread-safe, like the core.
#pragma once

#include <string_view>

#include "teststore/core.h"
#include "teststore/message.h"

namespace shardfs::teststore {

inline constexpr std::string_view kControlPrefix = "/_teststore/";

Reply answer_control(const Request& request, Core& core);

}  // namespace shardfs::teststore
