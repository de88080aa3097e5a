#include "app/setting_flags.h"

#include <CLI/CLI.hpp>

#include "app/options.h"

namespace shardfs::app {

void SettingFlags::add_to(CLI::App& command) {
  command.add_option("--config", config_, "Read this TOML file and no other")
      ->type_name("FILE")
      ->envname("SHARDFS_CONFIG");
  for (const Setting& setting : settings()) {
    std::string& value = values_[setting.name];
    CLI::Option* option = nullptr;
    if (setting.value_name.empty()) {
      option = command.add_flag("--" + setting.name, value, setting.help);
    } else {
      option = command.add_option("--" + setting.name, value, setting.help)->type_name(setting.value_name);
    }
    option->group(setting.group);
    options_[setting.name] = option;
  }
}

std::map<std::string, std::string> SettingFlags::given() const {
  std::map<std::string, std::string> out;
  for (const auto& [name, option] : options_) {
    if (option->count() > 0) out[name] = values_.at(name);
  }
  return out;
}

}  // namespace shardfs::app
