#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/daemon.h"
#include "app/message.h"
#include "app/mount_plan.h"
#include "app/mounted_system.h"
#include "app/mountpoint.h"
#include "app/options.h"
#include "app/setting_flags.h"
#include "app/url.h"
#include "control/socket_path.h"

namespace shardfs::app {
namespace {

struct Arguments {
  std::string source;
  std::string mountpoint;
  std::vector<std::string> mount_words;  // of -o
  SettingFlags flags;
};

constexpr const char* kHelp =
    "Shows the objects below s3://BUCKET/PREFIX as read-only files in DIR, which must be an existing folder. Returns "
    "when\n"
    "the mount answers, with exit code 0; else with one line that says why, and nothing left mounted.\n"
    "\n"
    "Sizes: 4096, 512M, 1.5T (powers of 1024), some also 80%. Times: 500ms, 60s, 10m, 2h, inf.\n"
    "\n"
    "A switch is turned off by =false: --allow-other=false.\n"
    "\n"
    "Every option can also be set in the environment, as SHARDFS_CACHE_SIZE=500G, or in a TOML file, as\n"
    "cache-size = \"500G\". The command line goes before the environment, that before the file of --config, else\n"
    "~/.config/shardfs/config.toml, then /etc/shardfs/config.toml. Keys come from where the AWS tools look for them:\n"
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, profile, web identity, container, instance metadata.\n"
    "\n"
    "In /etc/fstab (with mount.shardfs from the package):\n"
    "  s3://my-bucket/imagenet /data shardfs cache_size=500G,_netdev,nofail 0 0\n"
    "\n"
    "Examples:\n"
    "  shardfs mount s3://my-bucket/imagenet /data\n"
    "  shardfs mount s3://my-bucket/imagenet /data --cache-dir /nvme/shardfs --cache-size 500G\n"
    "  shardfs mount s3://my-bucket /data --endpoint-url http://10.0.0.5:9000 --path-style\n"
    "  shardfs mount s3://public-bucket /data --no-sign-request --metadata-ttl inf\n"
    "  shardfs mount s3://my-bucket/imagenet /data --foreground --log-level info";

int usage_error(const std::string& message) {
  print_error(message);
  return kExitUsage;
}

void warn_of_unknown_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  const auto unknown = unknown_variables(names);
  if (!unknown.empty()) print_note(fmt::format("no option is set by {}", fmt::join(unknown, ", ")));
}

int mount(const Arguments& arguments) {
  auto command_line = arguments.flags.given();
  std::string config = arguments.flags.config();
  for (const std::string& words : arguments.mount_words) {
    if (auto taken = take_mount_words(words, command_line, config); !taken) return usage_error(taken.error().message);
  }
  // The daemon reads it again, and its folder is "/".
  if (!config.empty()) config = std::filesystem::absolute(config).string();
  const auto read_options = [command_line, config] { return resolve_options(default_sources(command_line, config)); };
  auto options = read_options();
  if (!options) return usage_error(options.error().message);
  const bool no_source = arguments.mountpoint.empty();
  if (no_source && options->mapped_source.empty()) {
    const bool is_source = arguments.source.starts_with("s3://");
    return usage_error(fmt::format("the {} is missing: shardfs mount {} {}", is_source ? "mountpoint" : "source",
                                   is_source ? arguments.source : "s3://BUCKET/PREFIX",
                                   is_source ? "DIR" : arguments.source));
  }
  auto source = parse_url(no_source ? options->mapped_source : arguments.source);
  if (!source) return usage_error(source.error().message);
  warn_of_unknown_variables();
  const std::string& folder = no_source ? arguments.source : arguments.mountpoint;
  const auto mountpoint = control::canonical_mountpoint(folder);
  if (!mountpoint) {
    print_error(mountpoint.error().code == base::Code::kNotFound
                    ? fmt::format("the mountpoint {} does not exist; make the folder first", folder)
                    : "the mountpoint " + mountpoint.error().message);
    return kExitFailed;
  }
  std::vector<std::string> notes;
  const auto prepared = prepare_mountpoint(*mountpoint, notes);
  for (const auto& note : notes) print_note(note);
  if (!prepared) {
    print_error(prepared.error().message);
    return kExitFailed;
  }
  if (!options->cache_off()) {
    if (auto checked = refuse_cache_below(*mountpoint, options->cache_folder); !checked) {
      return usage_error(checked.error().message);
    }
  }
  if (!options->ca_bundle.empty()) options->ca_bundle = std::filesystem::absolute(options->ca_bundle).string();
  if (!options->manifest.empty()) options->manifest = std::filesystem::absolute(options->manifest).string();
  prepare_environment();
  const MountPlan plan{std::move(*source), *mountpoint, std::move(*options), read_options};
  if (plan.options.foreground) {
    StartReport report(-1, plan.options.log_file);
    return run_mount(plan, report);
  }
  return run_detached(plan.options.log_file, [&plan](StartReport& report) { return run_mount(plan, report); });
}

}  // namespace

void add_mount_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("mount", "Mount an S3 bucket or prefix as a read-only folder");
  command->get_formatter()->column_width(34);
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("SOURCE", arguments->source,
                   "s3://BUCKET or s3://BUCKET/PREFIX. May be left out where the site's variables name it")
      ->required();
  command->add_option("DIR", arguments->mountpoint, "The mountpoint, an existing folder");
  command
      ->add_option("-o", arguments->mount_words,
                   "Options as in fstab, by the same names: -o allow_other,cache_size=500G,config=FILE")
      ->type_name("WORDS")
      ->allow_extra_args(false);
  arguments->flags.add_to(*command);
  command->footer(kHelp);
  command->callback([arguments, &exit_code] { exit_code = mount(*arguments); });
}

}  // namespace shardfs::app
