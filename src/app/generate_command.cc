#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/options.h"
#include "shardfs/version.h"

namespace shardfs::app {
namespace {

// In the order of the help; those that people do not call themselves have an empty group.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) shown.push_back(command);
  }
  return shown;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) shown.push_back(option);
  }
  return shown;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string in_table(const std::string& text) { return replaced(text, "|", "\\|"); }

std::string configuration() {
  std::string text =
      "# Configuration\n\n"
      "Made by `shardfs generate configuration` from the options themselves; a test compares it.\n\n"
      "Each setting of `shardfs mount` has one name in all places: an option, a variable of the environment, a key in "
      "a TOML "
      "file, a word of `mount -o` (with `_` for `-`). The command line goes before the environment, that before the "
      "file of "
      "`--config`, else `~/.config/shardfs/config.toml`, then `/etc/shardfs/config.toml`.\n\n"
      "Sizes: 4096, 512M, 1.5T (powers of 1024), some also 80%. Times: 500ms, 60s, 10m, 2h, inf. Switches: true or "
      "false.\n";
  std::string group;
  for (const Setting& setting : settings()) {
    if (setting.group != group) {
      group = setting.group;
      text += fmt::format("\n## {}\n\n| option | variable | meaning |\n|---|---|---|\n", group);
    }
    const std::string value = setting.value_name.empty() ? "" : " " + setting.value_name;
    text += fmt::format("| `--{}{}` | `{}` | {} |\n", setting.name, value, variable_of(setting.name),
                        in_table(setting.help));
  }
  return text;
}

// Source: man(7), groff_man(7).
std::string roff(const std::string& text) {
  std::string safe = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  safe = replaced(safe, "\n.", "\n\\&.");
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

void add_command(std::string& text, const CLI::App& command, const std::string& prefix) {
  text += fmt::format(".SS {}\n{}\n", roff(prefix + command.get_name()), roff(command.get_description()));
  for (const CLI::Option* option : options_of(command)) {
    const std::string type = option->get_type_name();
    text += fmt::format(".TP\n.B {}\n{}\n",
                        roff(option->get_name(option->get_positional(), true) +
                             (type.empty() || option->get_positional() ? "" : " " + type)),
                        roff(option->get_description()));
  }
  for (const CLI::App* inner : commands_of(command)) add_command(text, *inner, prefix + command.get_name() + " ");
  if (!command.get_footer().empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.get_footer()));
}

std::string man(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH SHARDFS 1 \"\" \"shardfs {}\" \"User Commands\"\n.SH NAME\nshardfs \\- S3 prefixes as read\\-only local "
      "files\n"
      ".SH SYNOPSIS\n.B shardfs\n.I COMMAND\n[options]\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      version(),
      roff("Shows the objects below an S3 prefix as read-only files, for programs that train models. What was read "
           "once is "
           "kept on a local disk."));
  for (const CLI::App* command : commands_of(app)) add_command(text, *command, "");
  text += ".SH ENVIRONMENT\nEach option of " + roff("shardfs mount") +
          " as SHARDFS_NAME, and the variables of the AWS tools.\n";
  text += fmt::format(".SH FILES\n{}\n",
                      roff("/etc/shardfs/config.toml, ~/.config/shardfs/config.toml, /etc/shardfs/slurm.toml, "
                           "/run/shardfs, /var/cache/shardfs"));
  return text + ".SH EXIT STATUS\n0 ok, 1 failed, 2 wrong usage.\n";
}

std::string words_for(const CLI::App& command) {
  std::string words;
  for (const CLI::App* inner : commands_of(command)) words += " " + inner->get_name();
  for (const CLI::Option* option : options_of(command)) {
    for (const auto& name : option->get_lnames()) words += " --" + name;
  }
  return words.empty() ? words : words.substr(1);
}

std::string completion(const CLI::App& app) {
  std::string cases;
  std::string commands;
  for (const CLI::App* command : commands_of(app)) {
    commands += (commands.empty() ? "" : " ") + command->get_name();
    cases += fmt::format("    {}) words='{}' ;;\n", command->get_name(), words_for(*command));
  }
  return "# bash completion for shardfs; made by `shardfs generate completion`.\n"
         "_shardfs() {\n"
         "  local words current=${COMP_WORDS[COMP_CWORD]}\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  [ \"$COMP_CWORD\" -gt 1 ] || words='" +
         commands +
         " --help --version'\n"
         "  case ${COMP_WORDS[1]} in slurm | debug | cache) [ \"$COMP_CWORD\" -gt 2 ] && words= ;; esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  # Folders where no option was begun.\n"
         "  [[ $current == -* || $COMP_CWORD -lt 2 ]] || mapfile -O ${#COMPREPLY[@]} -t COMPREPLY < <(compgen -d -- "
         "\"$current\")\n"
         "}\n"
         "complete -o filenames -F _shardfs shardfs\n";
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("generate", "")->group("");
  const auto what = std::make_shared<std::string>();
  command->add_option("WHAT", *what, "man, configuration, completion")
      ->required()
      ->check(CLI::IsMember({"man", "configuration", "completion"}));
  command->callback([&app, what, &exit_code] {
    const std::string text = *what == "man" ? man(app) : *what == "configuration" ? configuration() : completion(app);
    std::fputs(text.c_str(), stdout);
    exit_code = kExitOk;
  });
}

}  // namespace shardfs::app
