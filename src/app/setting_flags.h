// SettingFlags: the table of settings as options of a command, with --config.
// Thread rule: confined to the main thread. Outlives the parsing of the command line.
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace shardfs::app {

class SettingFlags {
 public:
  void add_to(CLI::App& command);
  /// By setting name, those that were given.
  std::map<std::string, std::string> given() const;
  const std::string& config() const { return config_; }

 private:
  std::string config_;
  std::map<std::string, std::string> values_;  // by setting name; only those whose option was given count
  std::map<std::string, CLI::Option*> options_;
};

}  // namespace shardfs::app
