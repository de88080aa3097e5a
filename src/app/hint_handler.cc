#include "app/hint_handler.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "app/mount_path.h"

namespace shardfs::app {

using base::Code;
using base::fail;

// Those of the first names, as they are opened first.
void HintHandler::list_directories(const std::vector<std::string>& paths) const {
  std::set<std::string> directories;
  for (const auto& path : paths) {
    const size_t slash = path.rfind('/');
    directories.insert(slash == std::string::npos ? std::string() : path.substr(0, slash));
    if (directories.size() == kDirectoriesListed) break;
  }
  struct Waiting {
    std::mutex mutex;
    std::condition_variable all_done;
    size_t left = 0;
  };
  const auto waiting = std::make_shared<Waiting>();
  waiting->left = directories.size();
  for (const auto& directory : directories) {
    list_(directory, [waiting] {
      std::lock_guard lock(waiting->mutex);
      if (--waiting->left == 0) waiting->all_done.notify_all();
    });
  }
  std::unique_lock lock(waiting->mutex);
  waiting->all_done.wait_for(lock, kListDeadline, [&] { return waiting->left == 0; });
}

base::Result<std::string> HintHandler::handle(const std::string& arguments) const {
  const auto request = nlohmann::json::parse(arguments, nullptr, false);
  const auto files = request.is_object() ? request.find("files") : request.end();
  if (!request.is_object() || files == request.end() || !files->is_array()) {
    return fail(Code::kInvalid, "a hint has no list \"files\"");
  }
  const auto append = request.find("append");
  if (append != request.end() && !append->is_boolean()) {
    return fail(Code::kInvalid, "\"append\" is neither true nor false");
  }
  std::vector<std::string> paths;
  size_t outside = 0;
  for (const auto& file : *files) {
    if (!file.is_string()) return fail(Code::kInvalid, "\"files\" holds something that is no text");
    std::string path = path_below(mountpoint_, file.get_ref<const std::string&>());
    if (path.empty()) {
      ++outside;
    } else {
      paths.push_back(std::move(path));
    }
  }
  list_directories(paths);
  const HintResult result = give_(paths, append != request.end() && append->get<bool>());
  return nlohmann::json{{"accepted", result.accepted}, {"unknown", result.unknown + outside}}.dump();
}

}  // namespace shardfs::app
