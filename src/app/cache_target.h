// CacheTarget: whom a cache command asks: a mount through its control socket, or, where there is none, the folder
// itself, opened by this process as one more user of it. And the files that paths on a command line stand for.
// Thread rule: confined to the main thread; blocks.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace shardfs::app {

class CacheTarget {
 public:
  virtual ~CacheTarget() = default;
  /// mountpoint: empty: the only mount of this user. Errors: kNotFound.
  static base::Result<std::unique_ptr<CacheTarget>> of_mount(const std::string& mountpoint);
  /// Never makes a folder, and never evicts unasked. Errors: kNotFound, and those of Cache::open.
  static base::Result<std::unique_ptr<CacheTarget>> of_folder(const std::string& folder);

  /// The commands are those of CacheHandler (and of a mount's control socket). Errors: theirs; kIo: no answer.
  virtual base::Result<nlohmann::json> ask(const std::string& command, const nlohmann::json& arguments) = 0;
};

/// A file or folder in a mount.
struct MountedPath {
  std::string mountpoint;
  std::string path;  // below it; "": its root
};
/// Errors: kNotFound: no such file, or not in a mount of this user.
base::Result<MountedPath> find_mounted(const std::string& path);

/// The files below, in the order of their names, as paths below the mountpoint; of a file itself. Lists through the
/// mount. Errors: kNotFound, kIo.
base::Result<std::vector<std::string>> files_below(const MountedPath& place);

}  // namespace shardfs::app
