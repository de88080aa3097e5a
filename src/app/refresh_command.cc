#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/command.h"
#include "app/message.h"
#include "app/mountpoint.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

int refresh(const std::string& given) {
  // Nothing is asked of the mount itself: it may be what no longer answers.
  const std::string path = std::filesystem::absolute(given).lexically_normal().string();
  const std::string whole = path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  auto entry = find_mount(whole);
  if (!entry) entry = find_mount_above(whole);
  if (!entry || !entry->of_shardfs()) {
    print_error(fmt::format("{} is not in a mount of shardfs (name it without links)", given));
    return kExitFailed;
  }
  auto client = ControlClient::connect(entry->mountpoint);
  if (!client) {
    print_error(client.error().message);
    return kExitFailed;
  }
  const nlohmann::json arguments = {{"path", whole}};
  const auto answer =
      client->request("refresh", arguments.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!answer) {
    print_error(fmt::format("{}: {}", given, answer.error().message));
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace

void add_refresh_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("refresh", "Let a mount forget names and attributes: the next look asks the store");
  const auto path = std::make_shared<std::string>();
  command->add_option("PATH", *path, "The mountpoint, or a folder or file below it")->required();
  command->footer(
      "For objects that were added, replaced or removed, when waiting for --metadata-ttl is too long. What is below "
      "the\n"
      "path is forgotten, too; by the kernel as well. Cached data stays: it belongs to versions, not to names. Files "
      "that\n"
      "are open stay what they were.\n"
      "\n"
      "Examples:\n"
      "  shardfs refresh /data\n"
      "  shardfs refresh /data/train");
  command->callback([path, &exit_code] { exit_code = refresh(*path); });
}

}  // namespace shardfs::app
