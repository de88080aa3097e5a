#include "app/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using store::ObjectInfo;

constexpr std::array<std::string_view, 3> kColumns = {"key", "size", "etag"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

/// One record of CSV (RFC 4180), which may hold line ends within quotes. False at the end of the text.
bool next_record(std::string_view& text, std::vector<std::string>& fields) {
  fields.assign(1, {});
  if (text.empty()) return false;
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        fields.back() += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  text.remove_prefix(std::min(at + 1, text.size()));
  return true;
}

Result<ObjectInfo> object_of(std::string key, std::string_view size, std::string etag, const std::string& bucket) {
  if (key.starts_with("s3://")) {
    const std::string start = "s3://" + bucket + "/";
    if (!key.starts_with(start)) return fail(Code::kInvalid, fmt::format("{} is in another bucket", key));
    key.erase(0, start.size());
  }
  if (key.empty()) return fail(Code::kInvalid, "there is no key");
  ObjectInfo out;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), out.size_bytes);
  if (size.empty() || error != std::errc() || end != size.data() + size.size()) {
    return fail(Code::kInvalid, fmt::format("{}: \"{}\" is no size", key, size));
  }
  if (etag.empty()) return fail(Code::kInvalid, fmt::format("{}: there is no ETag", key));
  if (!etag.ends_with('"')) etag = '"' + etag + '"';
  out.key = std::move(key);
  out.etag = std::move(etag);
  return out;
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_unsigned() ? std::to_string(value.get<uint64_t>()) : std::string();
}

Result<ObjectInfo> object_of_json(const std::string& line, const std::string& bucket) {
  const auto document = nlohmann::json::parse(line, nullptr, false);
  if (!document.is_object()) return fail(Code::kInvalid, "it is no JSON object");
  std::array<std::string, 3> values;
  for (const auto& [name, value] : document.items()) {
    const auto column = std::find(kColumns.begin(), kColumns.end(), lower(name));
    if (column != kColumns.end()) values[static_cast<size_t>(column - kColumns.begin())] = text_of(value);
  }
  return object_of(std::move(values[0]), values[1], std::move(values[2]), bucket);
}

/// Where each of the three is, if these fields name them.
std::optional<std::array<size_t, 3>> header_of(const std::vector<std::string>& fields) {
  std::array<size_t, 3> places{};
  for (size_t i = 0; i < kColumns.size(); ++i) {
    const auto place =
        std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return lower(f) == kColumns[i]; });
    if (place == fields.end()) return std::nullopt;
    places[i] = static_cast<size_t>(place - fields.begin());
  }
  return places;
}

}  // namespace

Result<std::vector<ObjectInfo>> parse_manifest(std::string_view text, const std::string& bucket) {
  std::vector<ObjectInfo> out;
  size_t number = 0;
  const auto add = [&](Result<ObjectInfo> object) -> Result<void> {
    if (!object) return fail(Code::kInvalid, fmt::format("line {}: {}", number, object.error().message));
    out.push_back(std::move(*object));
    return {};
  };
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.starts_with('{')) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (auto added = add(object_of_json(line, bucket)); !added) return tl::unexpected(std::move(added.error()));
    }
  } else {
    std::array<size_t, 3> places{0, 1, 2};
    std::vector<std::string> fields;
    while (next_record(text, fields)) {
      ++number;
      if (fields.size() == 1 && fields[0].empty()) continue;
      if (number == 1) {
        if (const auto header = header_of(fields)) {
          places = *header;
          continue;
        }
      }
      fields.resize(std::max(fields.size(), *std::max_element(places.begin(), places.end()) + 1));
      auto added =
          add(object_of(std::move(fields[places[0]]), fields[places[1]], std::move(fields[places[2]]), bucket));
      if (!added) return tl::unexpected(std::move(added.error()));
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.key == b.key; });
  if (twice != out.end()) return fail(Code::kInvalid, twice->key + " is listed twice");
  return out;
}

Result<std::vector<ObjectInfo>> read_manifest(const std::string& path, const std::string& bucket) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::fail_errno(Code::kInvalid, "read the manifest " + path, errno);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || file.fail()) return fail(Code::kInvalid, "read the manifest " + path + ": it can't be read");
  auto objects = parse_manifest(text, bucket);
  if (!objects) return fail(Code::kInvalid, fmt::format("the manifest {}, {}", path, objects.error().message));
  return objects;
}

}  // namespace shardfs::app
