#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/message.h"
#include "shardfs/control_client.h"

namespace shardfs::app {
namespace {

struct Arguments {
  std::string mountpoint;
  std::vector<std::string> files;
  std::string list;  // a file's name
};

// One name a line; empty ones are left out. False if it can't be read.
bool read_list(const std::string& list, std::vector<std::string>& files) {
  std::ifstream file;
  if (list != "-") file.open(list);
  std::istream& lines = list == "-" ? std::cin : file;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) files.push_back(std::move(line));
  }
  if (lines.eof() && !lines.bad()) return true;
  print_error(fmt::format("read {}: {}", list, std::strerror(errno)));
  return false;
}

// Whoever names the mount by another path than its own names the files by it, too.
void cut_mountpoint(std::string mountpoint, std::vector<std::string>& files) {
  while (mountpoint.size() > 1 && mountpoint.ends_with('/')) mountpoint.pop_back();
  if (!mountpoint.starts_with('/')) return;
  mountpoint += '/';
  for (auto& file : files) {
    if (file.starts_with(mountpoint)) file.erase(0, mountpoint.size());
  }
}

int hint(const Arguments& arguments) {
  std::vector<std::string> files;
  for (const auto& file : arguments.files) {
    if (file != "-") {
      files.push_back(file);
    } else if (!read_list(file, files)) {
      return kExitFailed;
    }
  }
  if (!arguments.list.empty() && !read_list(arguments.list, files)) return kExitFailed;
  if (files.empty() && arguments.files.empty() && arguments.list.empty()) {
    print_error("hint: name the files that will be opened next (see shardfs hint --help)");
    return kExitUsage;
  }
  cut_mountpoint(arguments.mountpoint, files);
  auto client = ControlClient::connect(arguments.mountpoint, std::chrono::seconds(30));
  if (!client) {
    print_error(client.error().message);
    return kExitFailed;
  }
  const auto result = client->hint(files);
  if (!result) {
    print_error(fmt::format("{}: {}", arguments.mountpoint, result.error().message));
    return kExitFailed;
  }
  fmt::print("{} accepted, {} unknown\n", result->accepted, result->unknown);
  return result->accepted > 0 || files.empty() ? kExitOk : kExitFailed;
}

}  // namespace

void add_hint_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("hint", "Tell a mount which files a job will open next");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->mountpoint, "The mountpoint")->required();
  command->add_option("FILE", arguments->files,
                      "In the order in which they are opened; relative to the mountpoint, or absolute. -: from stdin");
  command->add_option("--from-file", arguments->list, "Names from a file, one a line (- for stdin)")->type_name("LIST");
  command->footer(
      "The mount fetches the first of them now and the others as the job comes to them, with what bandwidth and cache\n"
      "are spare. For the directories named it takes the place of the last hint. Names that the mount does not have "
      "are\n"
      "counted; the exit code is 1 if none is left.\n"
      "\n"
      "Examples:\n"
      "  shardfs hint /data train/shard-000017.tar train/shard-000003.tar\n"
      "  shuffled-list | shardfs hint /data -");
  command->callback([arguments, &exit_code] { exit_code = hint(*arguments); });
}

}  // namespace shardfs::app
