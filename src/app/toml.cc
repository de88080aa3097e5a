#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "app/options.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;

std::string known_names() {
  std::string names;
  for (const Setting& setting : settings()) names += (names.empty() ? "" : ", ") + setting.name;
  return names;
}

}  // namespace

base::Result<std::map<std::string, std::string>> parse_toml(const std::string& text, const std::string& origin) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalid, fmt::format("{}, line {}: {}", origin, error.source().begin.line, error.description()));
  }
  std::map<std::string, std::string> values;
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    std::replace(name.begin(), name.end(), '_', '-');
    const auto known = std::find_if(settings().begin(), settings().end(),
                                    [&](const Setting& setting) { return setting.name == name; });
    const auto line = node.source().begin.line;
    if (known == settings().end()) {
      return fail(Code::kInvalid,
                  fmt::format("{}, line {}: unknown key \"{}\"; known are {}", origin, line, key.str(), known_names()));
    }
    std::string value;
    if (const auto* string = node.as_string()) {
      value = string->get();
    } else if (const auto* integer = node.as_integer()) {
      // Modes are octal by their nature: 0o444 in TOML.
      value = known->value_name == "MODE" && name.ends_with("-mode") ? fmt::format("{:o}", integer->get())
                                                                     : fmt::format("{}", integer->get());
    } else if (const auto* truth = node.as_boolean()) {
      value = truth->get() ? "true" : "false";
    } else {
      return fail(Code::kInvalid,
                  fmt::format("{}, line {}: the value of \"{}\" must be a text, a whole number, true or "
                              "false",
                              origin, line, key.str()));
    }
    if (!values.emplace(name, value).second) {
      return fail(Code::kInvalid, fmt::format("{}, line {}: \"{}\" is given twice", origin, line, key.str()));
    }
  }
  return values;
}

}  // namespace shardfs::app
