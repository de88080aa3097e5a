#include "app/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/message.h"
#include "shardfs/version.h"

namespace shardfs::app {
int run_command_line(int argc, char** argv) {
  CLI::App app(fmt::format("shardfs {}: S3 prefixes as read-only local files, for training jobs.", version()),
               "shardfs");
  app.footer(
      "Examples:\n"
      "  shardfs mount s3://bucket/train /data\n"
      "  shardfs stats /data\n"
      "  shardfs umount /data\n"
      "  shardfs demo\n"
      "\n"
      "`shardfs COMMAND --help` explains a command. Exit codes: 0 ok, 1 failed, 2 wrong usage.");
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(version()));
  int exit_code = kExitOk;
  add_mount_command(app, exit_code);
  add_umount_command(app, exit_code);
  add_check_command(app, exit_code);
  add_stats_command(app, exit_code);
  add_hint_command(app, exit_code);
  add_top_command(app, exit_code);
  add_debug_command(app, exit_code);
  add_slurm_command(app, exit_code);
  add_warm_command(app, exit_code);
  add_cache_command(app, exit_code);
  add_refresh_command(app, exit_code);
  add_demo_command(app, exit_code);
  add_version_command(app, exit_code);
  add_generate_command(app, exit_code);  // it describes those above, too
  // CLI11 would only say that it did not expect the word.
  if (argc > 1 && *argv[1] != '-') {
    bool known = false;
    std::string names;
    for (const CLI::App* command : app.get_subcommands({})) {
      known = known || command->get_name() == argv[1];
      if (command->get_group().empty()) continue;  // not for people
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    if (!known) {
      print_error(fmt::format("\"{}\" is not a command; commands are {} (see shardfs --help)", argv[1], names));
      return kExitUsage;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& shown) {
    return app.exit(shown);
  } catch (const CLI::ParseError& error) {
    print_error(fmt::format("{} (see shardfs --help)", error.what()));
    return kExitUsage;
  }
  return exit_code;
}

}  // namespace shardfs::app
