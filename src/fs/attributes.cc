#include "fs/attributes.h"

#include <chrono>

namespace shardfs::fs {
namespace {

timespec to_timespec(base::WallTime time) {
  using std::chrono::duration_cast;
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  timespec spec{};
  spec.tv_sec = static_cast<time_t>(seconds.count());
  spec.tv_nsec = static_cast<long>(duration_cast<std::chrono::nanoseconds>(since - seconds).count());
  return spec;
}

}  // namespace

struct stat attributes_of(const tree::Node& node, const FileSystemOptions& options) {
  struct stat made = type_of(node.st_ino, node.kind);
  const bool directory = node.kind == tree::Kind::kDirectory;
  made.st_mode |= (directory ? options.directory_mode : options.file_mode) & 07777;
  made.st_nlink = directory ? 2 : 1;
  made.st_uid = options.uid;
  made.st_gid = options.gid;
  made.st_size = directory ? 0 : static_cast<off_t>(node.info.size_bytes);
  made.st_blocks = static_cast<blkcnt_t>((static_cast<uint64_t>(made.st_size) + 511) / 512);
  made.st_blksize = kPreferredReadBytes;
  made.st_mtim = made.st_atim = made.st_ctim = to_timespec(node.info.last_modified);
  return made;
}

struct stat type_of(uint64_t st_ino, tree::Kind kind) {
  struct stat made {};
  made.st_ino = st_ino;
  made.st_mode = kind == tree::Kind::kDirectory ? S_IFDIR : S_IFREG;
  return made;
}

}  // namespace shardfs::fs
