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

// What a site's variable may give, beside the settings.
constexpr std::string_view kOthersMapped[] = {"bucket", "prefix", "access-key-id", "secret-access-key",
                                              "session-token"};

std::string name_of(const toml::key& key) {
  std::string name(key.str());
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const Setting* find_setting(const std::string& name) {
  const auto found =
      std::find_if(settings().begin(), settings().end(), [&](const Setting& setting) { return setting.name == name; });
  return found == settings().end() ? nullptr : &*found;
}

// [variables]: the names of a site's own environment variables.
base::Result<void> parse_variables(const toml::table& table, const std::string& origin,
                                   std::map<std::string, std::string>& values) {
  for (const auto& [key, node] : table) {
    const std::string name = name_of(key);
    const auto line = node.source().begin.line;
    const bool known = find_setting(name) != nullptr ||
                       std::find(std::begin(kOthersMapped), std::end(kOthersMapped), name) != std::end(kOthersMapped);
    if (!known) {
      return fail(Code::kInvalid,
                  fmt::format("{}, line {}: no variable can give \"{}\"; bucket, prefix, access-key-id, "
                              "secret-access-key, session-token, or one of {}",
                              origin, line, key.str(), known_names()));
    }
    const auto* variable = node.as_string();
    if (variable == nullptr || variable->get().empty()) {
      return fail(Code::kInvalid,
                  fmt::format("{}, line {}: \"{}\" must be the name of a variable", origin, line, key.str()));
    }
    values["variables." + name] = variable->get();
  }
  return {};
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
    const std::string name = name_of(key);
    if (name == "variables" && node.is_table()) {
      if (auto parsed = parse_variables(*node.as_table(), origin, values); !parsed) {
        return tl::unexpected(std::move(parsed.error()));
      }
      continue;
    }
    const Setting* const known = find_setting(name);
    const auto line = node.source().begin.line;
    if (known == nullptr) {
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
