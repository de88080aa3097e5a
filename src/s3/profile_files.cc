#include "s3/profile_files.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace shardfs::s3 {
namespace {

using base::Code;
using base::Result;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string home_directory(const Environment& environment) {
  if (const auto home = environment("HOME")) return *home;
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) return found->pw_dir;
  return "/";
}

void merge(Section& into, const std::map<std::string, Section>& sections, const std::string& name, bool& found) {
  const auto section = sections.find(name);
  if (section == sections.end()) return;
  found = true;
  for (const auto& [key, value] : section->second) into[key] = value;
}

}  // namespace

std::string aws_path(const std::string& name, const Environment& environment) {
  return home_directory(environment) + "/.aws/" + name;
}

Result<std::optional<std::string>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return std::optional<std::string>();
    return base::fail(Code::kInvalid, fmt::format("{}: {}", path, std::strerror(error)), error);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<Section> load_config_section(const std::string& name, const Environment& environment) {
  const auto text = read_file(environment("AWS_CONFIG_FILE").value_or(aws_path("config", environment)));
  if (!text) return tl::unexpected(text.error());
  const auto sections = parse_ini(text->value_or(""));
  const auto found = sections.find(name);
  return found == sections.end() ? Section() : found->second;
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::map<std::string, Section> parse_ini(std::string_view text) {
  std::map<std::string, Section> out;
  Section* section = nullptr;
  std::string parent;  // the setting that indented lines belong to
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view content = trim(line);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (content[0] == '[') {
      const auto close = content.find(']');
      section = close == std::string_view::npos ? nullptr : &out[std::string(trim(content.substr(1, close - 1)))];
      parent.clear();
      continue;
    }
    const auto equals = content.find('=');
    if (section == nullptr || equals == std::string_view::npos) continue;
    const std::string name(trim(content.substr(0, equals)));
    const std::string value(trim(content.substr(equals + 1)));
    const bool nested = (line[0] == ' ' || line[0] == '\t') && !parent.empty();
    if (!nested) parent = value.empty() ? name : std::string();
    (*section)[nested ? parent + '.' + name : name] = value;
  }
  return out;
}

Result<Profile> load_profile(const std::string& name, const Environment& environment) {
  const std::string config_path = environment("AWS_CONFIG_FILE").value_or(aws_path("config", environment));
  const std::string credentials_path =
      environment("AWS_SHARED_CREDENTIALS_FILE").value_or(aws_path("credentials", environment));
  const auto config_text = read_file(config_path);
  if (!config_text) return tl::unexpected(config_text.error());
  const auto credentials_text = read_file(credentials_path);
  if (!credentials_text) return tl::unexpected(credentials_text.error());

  Profile out;
  out.name = name;
  out.sources = credentials_path + " and " + config_path;
  const auto config = parse_ini(config_text->value_or(""));
  merge(out.settings, config, name == "default" ? "default" : "profile " + name, out.found);
  if (name == "default") merge(out.settings, config, "profile default", out.found);
  if (const auto services = out.settings.find("services"); services != out.settings.end()) {
    bool ignored = false;
    merge(out.settings, config, "services " + services->second, ignored);
  }
  merge(out.settings, parse_ini(credentials_text->value_or("")), name, out.found);
  return out;
}

}  // namespace shardfs::s3
