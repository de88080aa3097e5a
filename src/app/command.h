// The commands of the program and their exit codes.
// Thread rule: confined to the main thread.
#pragma once

namespace CLI {
class App;
}

namespace shardfs::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // at run time
inline constexpr int kExitUsage = 2;   // the command line or the configuration makes no sense

/// Each adds a command with its help; it runs while the command line is parsed and leaves its exit code.
void add_mount_command(CLI::App& app, int& exit_code);
void add_umount_command(CLI::App& app, int& exit_code);
void add_refresh_command(CLI::App& app, int& exit_code);
void add_stats_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_hint_command(CLI::App& app, int& exit_code);
void add_top_command(CLI::App& app, int& exit_code);
void add_debug_command(CLI::App& app, int& exit_code);
void add_slurm_command(CLI::App& app, int& exit_code);
void add_warm_command(CLI::App& app, int& exit_code);
void add_cache_command(CLI::App& app, int& exit_code);
void add_demo_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_version_command(CLI::App& app, int& exit_code);

/// The whole program.
int run_command_line(int argc, char** argv);

}  // namespace shardfs::app
