#include "fuse/mount_options.h"

#include <string_view>

namespace shardfs::fuse {
namespace {

std::string escaped(std::string_view value) {
  std::string made;
  for (const char c : value) {
    if (c == ',' || c == '\\') made += '\\';
    made += c;
  }
  return made;
}

}  // namespace

std::string mount_option_text(const SessionOptions& options) {
  // ro also keeps stat after a passthrough read free of a GETATTR. Permissions are checked by the kernel, from the
  // modes that are shown.
  std::string text = "ro,nosuid,nodev,default_permissions,subtype=shardfs,fsname=" + escaped(options.source);
  if (options.allow_other) text += ",allow_other";
  return text;
}

MountArguments::MountArguments(const SessionOptions& options) {
  fuse_opt_add_arg(&arguments_, "shardfs");
  fuse_opt_add_arg(&arguments_, "-o");
  fuse_opt_add_arg(&arguments_, mount_option_text(options).c_str());
}

}  // namespace shardfs::fuse
