#include "app/cache_target.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "app/cache_handler.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/metrics.h"
#include "cache/cache.h"
#include "control/socket_path.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using nlohmann::json;

// Source: lowering the limit of a large cache removes 100,000 files, 50 us each, and the disk may be busy.
constexpr std::chrono::minutes kPatience{5};

class MountTarget final : public CacheTarget {
 public:
  explicit MountTarget(ControlClient client) : client_(std::move(client)) {}

  Result<json> ask(const std::string& command, const json& arguments) override {
    const auto text = arguments.dump(-1, ' ', false, json::error_handler_t::replace);
    const auto answer = client_.request(command, text);
    if (!answer) {
      const bool refused = answer.error().kind == ControlError::Kind::kRefused;
      return fail(refused ? Code::kInvalid : Code::kIo, answer.error().message);
    }
    return json::parse(*answer, nullptr, false);
  }

 private:
  ControlClient client_;
};

class FolderTarget final : public CacheTarget {
 public:
  Result<void> open(const std::string& folder) {
    cache::CacheOptions options;
    options.folder = folder;
    options.limit = {.bytes = 0, .percent = 100};  // that of the mounts is not known: this one must not evict for it
    auto opened = cache::Cache::open(options, disk_, clock_, metrics_);
    if (!opened) return tl::unexpected(std::move(opened.error()));
    cache_ = std::move(*opened);
    handler_ = std::make_unique<CacheHandler>(CacheHandler::Environment{.holdings = *cache_->holdings()});
    handlers_ = handler_->handlers();
    return {};
  }

  Result<json> ask(const std::string& command, const json& arguments) override {
    const auto answer = handlers_.at(command)(arguments.dump(-1, ' ', false, json::error_handler_t::replace));
    if (!answer) return tl::unexpected(answer.error());
    return json::parse(*answer, nullptr, false);
  }

 private:
  base::SystemDisk disk_;
  base::SystemClock clock_;
  base::Metrics metrics_;
  std::unique_ptr<cache::Cache> cache_;
  std::unique_ptr<CacheHandler> handler_;
  std::map<std::string, control::Handler> handlers_;
};

}  // namespace

Result<std::unique_ptr<CacheTarget>> CacheTarget::of_mount(const std::string& mountpoint) {
  std::string target = mountpoint;
  if (target.empty()) {
    const auto folder = control::runtime_folder();
    if (!folder) return tl::unexpected(folder.error());
    const auto mounts = control::list_states(*folder);
    if (mounts.empty()) return fail(Code::kNotFound, "no mount of this user; name a cache folder by --cache-dir");
    if (mounts.size() > 1) {
      return fail(Code::kNotFound, fmt::format("several mounts: name one, such as {}", mounts.front().mountpoint));
    }
    target = mounts.front().mountpoint;
  }
  auto client = ControlClient::connect(target, kPatience);
  if (!client) return fail(Code::kNotFound, client.error().message);
  return std::make_unique<MountTarget>(std::move(*client));
}

Result<std::unique_ptr<CacheTarget>> CacheTarget::of_folder(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::absolute(folder, error);
  if (!std::filesystem::exists(path / "SHARDFS", error)) {
    return fail(Code::kNotFound, folder + " is not a cache folder");
  }
  auto target = std::make_unique<FolderTarget>();
  if (auto opened = target->open(path.lexically_normal()); !opened) return tl::unexpected(std::move(opened.error()));
  return target;
}

Result<MountedPath> find_mounted(const std::string& path) {
  const auto whole = control::canonical_mountpoint(path);
  if (!whole) return tl::unexpected(whole.error());
  const auto folder = control::runtime_folder();
  if (!folder) return tl::unexpected(folder.error());
  MountedPath found;
  for (const auto& mount : control::list_states(*folder)) {
    const std::string below = mount.mountpoint == "/" ? "/" : mount.mountpoint + "/";
    if (*whole != mount.mountpoint && !whole->starts_with(below)) continue;
    if (mount.mountpoint.size() < found.mountpoint.size()) continue;
    found.mountpoint = mount.mountpoint;
    found.path = whole->size() > below.size() ? whole->substr(below.size()) : std::string();
  }
  if (found.mountpoint.empty()) return fail(Code::kNotFound, path + " is in no shardfs mount of this user");
  return found;
}

Result<std::vector<std::string>> files_below(const MountedPath& place) {
  namespace files = std::filesystem;
  const files::path top = files::path(place.mountpoint) / place.path;
  std::error_code error;
  if (!files::is_directory(top, error)) {
    if (error) return base::fail_errno(Code::kNotFound, top, error.value());
    return std::vector<std::string>{place.path};
  }
  std::vector<std::string> found;
  auto at = files::recursive_directory_iterator(top, error);
  for (; !error && at != files::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_directory(error)) continue;
    found.push_back(at->path().lexically_relative(place.mountpoint));
  }
  if (error) return base::fail_errno(Code::kIo, "list " + top.string(), error.value());
  return found;
}

}  // namespace shardfs::app
