#include "base/error.h"

#include <system_error>

namespace shardfs::base {

std::string_view name_of(Code code) {
  switch (code) {
    case Code::kNotFound: return "not_found";
    case Code::kPermission: return "permission";
    case Code::kChanged: return "changed";
    case Code::kIntegrity: return "integrity";
    case Code::kTransient: return "transient";
    case Code::kTimeout: return "timeout";
    case Code::kCancelled: return "cancelled";
    case Code::kReadOnly: return "read_only";
    case Code::kInvalid: return "invalid";
    case Code::kUnsupported: return "unsupported";
    case Code::kNameTooLong: return "name_too_long";
    case Code::kNotDirectory: return "not_directory";
    case Code::kIsDirectory: return "is_directory";
    case Code::kNoAttribute: return "no_attribute";
    case Code::kNoMemory: return "no_memory";
    case Code::kCacheIo: return "cache_io";
    case Code::kCacheFull: return "cache_full";
    case Code::kIo: return "io";
  }
  return "unknown";
}

tl::unexpected<Error> fail_errno(Code code, std::string message, int sys_errno) {
  message += ": " + std::system_category().message(sys_errno);
  return fail(code, std::move(message), sys_errno);
}

}  // namespace shardfs::base
