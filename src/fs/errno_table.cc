#include "fs/errno_table.h"

#include <cerrno>

#include "base/log.h"

namespace shardfs::fs {
namespace {

/// A failing cache is passed by; its errors end in fetch.
int unexpected(const base::Error& error) {
  base::log_error("an error of the cache reached a reader: {}: {}", base::name_of(error.code), error.message);
  return EIO;
}

}  // namespace

int to_errno(const base::Error& error) {
  using base::Code;
  switch (error.code) {
    case Code::kNotFound: return ENOENT;
    case Code::kPermission: return EACCES;
    case Code::kChanged: return ESTALE;
    case Code::kIntegrity: return EIO;
    case Code::kTransient: return EIO;
    case Code::kTimeout: return ETIMEDOUT;
    case Code::kCancelled: return EINTR;
    case Code::kReadOnly: return EROFS;
    case Code::kInvalid: return EIO;  // the store's answer made no sense: not the reader's EINVAL
    case Code::kUnsupported: return EOPNOTSUPP;
    case Code::kNameTooLong: return ENAMETOOLONG;
    case Code::kNotDirectory: return ENOTDIR;
    case Code::kIsDirectory: return EISDIR;
    case Code::kNoAttribute: return ENODATA;
    case Code::kNoMemory: return ENOMEM;
    case Code::kCacheIo: return unexpected(error);
    case Code::kCacheFull: return unexpected(error);
    case Code::kIo: return EIO;
  }
  return EIO;
}

}  // namespace shardfs::fs
