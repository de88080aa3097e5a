// Result and Error: how every room says that something went wrong.
// Not the place where an errno for a reader is chosen: only fs/errno_table.h does that.
// Thread rule: plain values.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace shardfs::base {

/// Every way in which an operation fails. Closed: a new member must be given an errno in fs.
enum class Code {
  kNotFound,     // the store said that there is no such object or bucket
  kPermission,   // 403, bad keys, archived object
  kChanged,      // the object is another version now
  kIntegrity,    // bytes or headers contradict what was promised, also after a refetch
  kTransient,    // connection errors, 5xx, 429, after the retry budget
  kTimeout,      // no answer within the deadline
  kCancelled,    // the caller took the request back, or the mount ends
  kReadOnly,     // an attempt to write
  kInvalid,      // an argument, option or answer that makes no sense
  kUnsupported,  // this store, kernel or file system can't do it
  kNameTooLong,  // a path part over 255 bytes
  kNotDirectory,
  kIsDirectory,
  kNoAttribute,  // no such extended attribute
  kNoMemory,     // a budget of bytes or handles is used up
  kCacheIo,      // the cache disk failed: never reaches a reader
  kCacheFull,    // no space within the cache's limit: never reaches a reader
  kIo,           // local I/O outside the cache (sockets, files of configuration)
};

/// A stable lower-case name, for logs and metrics: "not_found", "permission", ...
std::string_view name_of(Code code);

struct Error {
  Code code = Code::kInvalid;
  std::string message;  // names the object and the range, or the option and its value
  int sys_errno = 0;    // 0: none
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string message, int sys_errno = 0) {
  return tl::unexpected<Error>(Error{code, std::move(message), sys_errno});
}

/// Appends strerror(sys_errno) to the message.
tl::unexpected<Error> fail_errno(Code code, std::string message, int sys_errno);

}  // namespace shardfs::base
