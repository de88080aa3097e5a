#include "teststore/objects.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <mutex>

#include "teststore/generate.h"

namespace shardfs::teststore {

void Objects::make_bucket(std::string_view bucket) {
  std::unique_lock lock(mutex_);
  buckets_.try_emplace(std::string(bucket));
}

bool Objects::has_bucket(std::string_view bucket) const {
  std::shared_lock lock(mutex_);
  return buckets_.contains(bucket);
}

std::vector<std::string> Objects::buckets() const {
  std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, bucket] : buckets_) names.push_back(name);
  return names;
}

std::string Objects::put(std::string_view bucket, std::string_view key, std::string bytes, Attributes attributes) {
  Object object;
  object.size_bytes = bytes.size();
  if (attributes.etag.empty()) attributes.etag = '"' + hex(md5(bytes)) + '"';
  object.bytes = std::move(bytes);
  object.attributes = std::move(attributes);
  return insert(bucket, key, std::move(object));
}

std::string Objects::put_generated(std::string_view bucket, std::string_view key, uint64_t size_bytes, uint64_t seed,
                                   Attributes attributes) {
  Object object;
  object.source = Object::Source::kGenerated;
  object.seed = seed;
  object.size_bytes = size_bytes;
  if (attributes.etag.empty()) {  // opaque, in the form that multipart uploads have
    attributes.etag = fmt::format("\"{:016x}{:016x}-{}\"", splitmix64(seed), splitmix64(~size_bytes ^ seed),
                                  size_bytes / (8 << 20) + 1);
  }
  object.attributes = std::move(attributes);
  return insert(bucket, key, std::move(object));
}

base::Result<std::string> Objects::put_file(std::string_view bucket, std::string_view key, const std::string& path,
                                            Attributes attributes) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return base::fail_errno(base::Code::kIo, "cannot use " + path, errno);
  if (!S_ISREG(status.st_mode)) return base::fail(base::Code::kIo, path + " is not a regular file");
  Object object;
  object.source = Object::Source::kFile;
  object.path = path;
  object.size_bytes = static_cast<uint64_t>(status.st_size);
  if (attributes.etag.empty()) {
    const std::string version = fmt::format("{}:{}:{}:{}:{}", status.st_dev, status.st_ino, status.st_size,
                                            status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    attributes.etag = '"' + hex(md5(version)) + "-1\"";
  }
  if (attributes.last_modified == WallTime{}) {
    attributes.last_modified = std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec);
  }
  object.attributes = std::move(attributes);
  return insert(bucket, key, std::move(object));
}

base::Result<void> Objects::put_tree(const std::string& root) {
  namespace files = std::filesystem;
  std::error_code error;
  for (files::directory_iterator bucket(root, error), end; !error && bucket != end; bucket.increment(error)) {
    if (!bucket->is_directory()) continue;
    const std::string name = bucket->path().filename();
    make_bucket(name);
    for (files::recursive_directory_iterator file(bucket->path(), error), last; !error && file != last;
         file.increment(error)) {
      if (!file->is_regular_file()) continue;
      const std::string path = file->path();
      auto put = put_file(name, path.substr(bucket->path().native().size() + 1), path);
      if (!put) return tl::unexpected(put.error());
    }
  }
  if (error) return base::fail_errno(base::Code::kIo, "cannot read the folder " + root, error.value());
  return {};
}

ObjectPtr Objects::find(std::string_view bucket, std::string_view key) const {
  std::shared_lock lock(mutex_);
  const auto found = buckets_.find(bucket);
  if (found == buckets_.end()) return nullptr;
  const auto object = found->second.find(key);
  return object == found->second.end() ? nullptr : object->second;
}

bool Objects::remove(std::string_view bucket, std::string_view key) {
  ObjectPtr removed;  // freed after the lock
  std::unique_lock lock(mutex_);
  const auto found = buckets_.find(bucket);
  if (found == buckets_.end()) return false;
  const auto object = found->second.find(key);
  if (object == found->second.end()) return false;
  removed = std::move(object->second);
  found->second.erase(object);
  lock.unlock();
  return true;
}

std::string Objects::insert(std::string_view bucket, std::string_view key, Object object) {
  if (object.attributes.last_modified == WallTime{}) {
    object.attributes.last_modified = std::chrono::system_clock::now();
  }
  ObjectPtr made = std::make_shared<const Object>(std::move(object));
  std::string etag = made->attributes.etag;
  std::unique_lock lock(mutex_);
  auto bucket_at = buckets_.try_emplace(std::string(bucket)).first;
  bucket_at->second.try_emplace(std::string(key)).first->second.swap(made);
  lock.unlock();  // before `made` frees what it replaced
  return etag;
}

}  // namespace shardfs::teststore
