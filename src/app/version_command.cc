#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/command.h"
#include "shardfs/version.h"

namespace shardfs::app {

void add_version_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("version", "Show the version, and those of the libraries it was built with");
  command->callback([&exit_code] {
    fmt::print("shardfs {}\nbuilt with {}\n", version(), SHARDFS_BUILT_WITH);
    exit_code = kExitOk;
  });
}

}  // namespace shardfs::app
