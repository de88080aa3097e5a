#include "app/cache_handler.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "app/mount_path.h"
#include "base/units.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using cache::Holding;
using nlohmann::json;

// Files that a request may name, and that a page has. Source: an answer of some 100 KiB, in a few 10 ms.
constexpr size_t kFilesAtOnce = 1024;
constexpr std::chrono::seconds kLookupDeadline{10};
// Of checking, for one answer. Source: a person sees that it goes on, and a mount that ends does not wait for long.
constexpr std::chrono::milliseconds kCheckedAtOnce{500};

json json_of(const Holding& holding) {
  return {{"name", holding.name},
          {"endpoint", holding.id.endpoint},
          {"bucket", holding.id.bucket},
          {"key", holding.id.key},
          {"version", holding.id.version},
          {"size_bytes", holding.size_bytes},
          {"resident_bytes", holding.resident_bytes},
          {"cost_bytes", holding.cost_bytes},
          {"complete", holding.complete},
          {"verified", holding.verified},
          {"pinned", holding.pinned},
          {"open", holding.open},
          {"last_use", static_cast<double>(holding.last_use_ms) / 1e3}};
}

json json_of(const base::Error& error) { return {{"code", base::name_of(error.code)}, {"message", error.message}}; }

// Absent: the default.
Result<std::string> text_of(const json& arguments, const char* name) {
  const auto place = arguments.find(name);
  if (place == arguments.end()) return std::string();
  if (!place->is_string()) return fail(Code::kInvalid, std::string("\"") + name + "\" is no text");
  return place->get<std::string>();
}

Result<std::vector<std::string>> texts_of(const json& arguments, const char* name) {
  std::vector<std::string> texts;
  const auto place = arguments.find(name);
  if (place == arguments.end()) return texts;
  const auto wrong = [&] { return fail(Code::kInvalid, std::string("\"") + name + "\" is not a list of texts"); };
  if (!place->is_array()) return wrong();
  for (const auto& text : *place) {
    if (!text.is_string()) return wrong();
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::string_view name_of(cache::Evicted evicted) {
  switch (evicted) {
    case cache::Evicted::kEvicted: return "evicted";
    case cache::Evicted::kPinned: return "pinned";
    case cache::Evicted::kInUse: return "in_use";
    case cache::Evicted::kGone: return "not_cached";
    case cache::Evicted::kFailed: return "failed";
  }
  return "failed";
}

json limit_json(const cache::Holdings::Limit& limit) {
  return {{"limit_bytes", limit.limit_bytes},
          {"of_folder", limit.of_folder},
          {"used_bytes", limit.used_bytes},
          {"pinned_bytes", limit.pinned_bytes},
          {"disk_bytes", limit.disk_bytes}};
}

}  // namespace

const std::map<std::string, CacheHandler::Run>& CacheHandler::commands() {
  static const std::map<std::string, Run> commands = {
      {"cache_list", &CacheHandler::list},     {"cache_stat", &CacheHandler::stat},
      {"cache_pin", &CacheHandler::pin},       {"cache_unpin", &CacheHandler::unpin},
      {"cache_evict", &CacheHandler::evict},   {"cache_clear", &CacheHandler::clear},
      {"cache_verify", &CacheHandler::verify}, {"cache_limit", &CacheHandler::limit},
  };
  return commands;
}

std::map<std::string, control::Handler> CacheHandler::handlers() {
  std::map<std::string, control::Handler> handlers;
  for (const auto& [command, run] : commands()) {
    handlers[command] = [this, run = run](const std::string& text) -> Result<std::string> {
      const auto arguments = json::parse(text, nullptr, false);
      if (!arguments.is_object()) return fail(Code::kInvalid, "the arguments are not a JSON object");
      auto answer = (this->*run)(arguments);
      if (!answer) return tl::unexpected(std::move(answer.error()));
      return answer->dump(-1, ' ', false, json::error_handler_t::replace);
    };
  }
  return handlers;
}

std::map<std::string, control::Handler> CacheHandler::refusals() {
  std::map<std::string, control::Handler> refusals;
  for (const auto& [command, run] : commands()) {
    refusals[command] = [](const std::string&) -> Result<std::string> {
      return fail(Code::kUnsupported, "this mount has no cache");
    };
  }
  return refusals;
}

Result<std::vector<CacheHandler::Selected>> CacheHandler::select(const json& arguments) {
  const auto files = texts_of(arguments, "files");
  if (!files) return tl::unexpected(files.error());
  const auto names = texts_of(arguments, "names");
  if (!names) return tl::unexpected(names.error());
  if (files->size() + names->size() > kFilesAtOnce) return fail(Code::kInvalid, "more than 1024 files at once");
  if (!files->empty() && env_.lookup == nullptr) return fail(Code::kInvalid, "no mount: files have no paths here");
  const auto unknown = [](const std::string& name) { return fail(Code::kNotFound, name + " is not in the cache"); };
  std::vector<Selected> selected;
  if (!files->empty()) {
    std::vector<std::string> paths;
    for (const auto& file : *files) paths.push_back(path_below(env_.mountpoint, file));
    auto infos = env_.lookup->find(paths, kLookupDeadline);
    for (size_t i = 0; i < paths.size(); ++i) {
      auto& info = infos[i];
      Result<Holding> holding =
          info ? env_.holdings.find({env_.endpoint, env_.bucket, info->key, version_of(*info)}, info->size_bytes)
               : Result<Holding>(tl::unexpected(info.error()));
      selected.push_back({(*files)[i], std::move(holding), std::move(info)});
    }
  }
  for (const auto& name : *names) {
    constexpr std::string_view kScheme = "s3://";
    if (!name.starts_with(kScheme)) {
      selected.push_back({name, env_.holdings.find(name), unknown(name)});
      continue;
    }
    const std::string place = name.substr(kScheme.size());
    const size_t slash = std::min(place.find('/'), place.size());
    auto found = env_.holdings.matching(place.substr(0, slash), place.substr(std::min(slash + 1, place.size())));
    if (!found) return tl::unexpected(found.error());
    for (auto& holding : *found) selected.push_back({name, std::move(holding), unknown(name)});
    if (found->empty()) selected.push_back({name, unknown(name), unknown(name)});
  }
  return selected;
}

Result<json> CacheHandler::list(const json& arguments) {
  const auto after = text_of(arguments, "after");
  if (!after) return tl::unexpected(after.error());
  const auto page = env_.holdings.list(*after, kFilesAtOnce);
  if (!page) return tl::unexpected(page.error());
  json entries = json::array();
  for (const auto& holding : page->entries) entries.push_back(json_of(holding));
  return json{{"entries", std::move(entries)}, {"next", page->next}};
}

Result<json> CacheHandler::stat(const json& arguments) {
  const auto selected = select(arguments);
  if (!selected) return tl::unexpected(selected.error());
  json entries = json::array();
  for (const auto& one : *selected) {
    json entry = {{"given", one.given}, {"cached", one.holding.has_value()}};
    if (one.holding) {
      entry.update(json_of(*one.holding));
    } else if (one.info) {
      entry.update({{"key", one.info->key}, {"size_bytes", one.info->size_bytes}, {"resident_bytes", 0}});
    } else {
      entry["error"] = json_of(one.holding.error());
    }
    entries.push_back(std::move(entry));
  }
  return json{{"entries", std::move(entries)}};
}

Result<json> CacheHandler::pin(const json& arguments) {
  const auto selected = select(arguments);
  if (!selected) return tl::unexpected(selected.error());
  json entries = json::array();
  for (const auto& one : *selected) {
    Result<Holding> pinned = one.holding;
    if (one.info) {
      pinned =
          env_.holdings.pin({env_.endpoint, env_.bucket, one.info->key, version_of(*one.info)}, one.info->size_bytes);
    } else if (one.holding) {
      pinned = env_.holdings.pin(one.holding->name);
    }
    json entry = {{"given", one.given}, {"result", pinned ? "pinned" : "failed"}};
    entry.update(pinned ? json_of(*pinned) : json{{"error", json_of(pinned.error())}});
    entries.push_back(std::move(entry));
  }
  return json{{"entries", std::move(entries)}};
}

Result<json> CacheHandler::unpin(const json& arguments) {
  const auto selected = select(arguments);
  if (!selected) return tl::unexpected(selected.error());
  json entries = json::array();
  for (const auto& one : *selected) {
    json entry = {{"given", one.given}, {"result", "not_cached"}};
    Result<Holding> now = one.holding;
    if (one.holding) {
      entry["result"] = one.holding->pinned ? "unpinned" : "not_pinned";
      if (one.holding->pinned) now = env_.holdings.unpin(one.holding->name);
    }
    if (now) {
      entry.update(json_of(*now));
    } else if (one.holding || !one.info) {
      entry.update({{"result", "failed"}, {"error", json_of(now.error())}});
    }
    entries.push_back(std::move(entry));
  }
  return json{{"entries", std::move(entries)}};
}

Result<json> CacheHandler::evict(const json& arguments) {
  if (env_.release_idle) env_.release_idle();
  const auto selected = select(arguments);
  if (!selected) return tl::unexpected(selected.error());
  json entries = json::array();
  for (const auto& one : *selected) {
    const bool unknown = !one.holding && !one.info;
    const auto what = one.holding ? env_.holdings.evict(one.holding->name) : cache::Evicted::kGone;
    json entry = {{"given", one.given}, {"result", unknown ? "failed" : name_of(what)}, {"evicted_bytes", 0}};
    if (one.holding) {
      entry["key"] = one.holding->id.key;
      if (what == cache::Evicted::kEvicted) entry["evicted_bytes"] = one.holding->cost_bytes;
    }
    if (unknown) entry["error"] = json_of(one.holding.error());
    entries.push_back(std::move(entry));
  }
  return json{{"entries", std::move(entries)}};
}

Result<json> CacheHandler::clear(const json& arguments) {
  const auto after = text_of(arguments, "after");
  if (!after) return tl::unexpected(after.error());
  const auto pinned_too = arguments.find("pinned");
  if (pinned_too != arguments.end() && !pinned_too->is_boolean()) {
    return fail(Code::kInvalid, "\"pinned\" is neither true nor false");
  }
  if (env_.release_idle) env_.release_idle();
  const auto page = env_.holdings.list(*after, kFilesAtOnce);
  if (!page) return tl::unexpected(page.error());
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> counts{{"evicted", 0}, {"pinned", 0}, {"in_use", 0}, {"failed", 0}};
  for (const auto& holding : page->entries) {
    if (holding.pinned && pinned_too != arguments.end() && pinned_too->get<bool>()) {
      static_cast<void>(env_.holdings.unpin(holding.name));
    }
    const auto what = env_.holdings.evict(holding.name);
    ++counts[std::string(name_of(what))];
    if (what == cache::Evicted::kEvicted) bytes += holding.cost_bytes;
  }
  return json{{"evicted", counts["evicted"]}, {"evicted_bytes", bytes},     {"pinned", counts["pinned"]},
              {"in_use", counts["in_use"]},   {"failed", counts["failed"]}, {"next", page->next}};
}

Result<json> CacheHandler::verify(const json& arguments) {
  const auto after = text_of(arguments, "after");
  if (!after) return tl::unexpected(after.error());
  const auto checked = env_.holdings.check(*after, kCheckedAtOnce);
  if (!checked) return tl::unexpected(checked.error());
  json bad = json::array();
  for (const auto& block : checked->bad) {
    bad.push_back({{"name", block.name}, {"bucket", block.id.bucket}, {"key", block.id.key}, {"block", block.block}});
  }
  return json{{"files", checked->files},
              {"blocks", checked->blocks},
              {"bytes", checked->bytes},
              {"bad", std::move(bad)},
              {"next", checked->next}};
}

Result<json> CacheHandler::limit(const json& arguments) {
  const auto size = text_of(arguments, "size");
  if (!size) return tl::unexpected(size.error());
  if (size->empty()) {
    const auto now = env_.holdings.limit();
    if (!now) return tl::unexpected(now.error());
    return limit_json(*now);
  }
  const auto wanted = base::parse_size_or_percent(*size);
  if (!wanted) return tl::unexpected(wanted.error());
  if (env_.release_idle) env_.release_idle();
  const auto set = env_.holdings.set_limit(*wanted);
  if (!set) return tl::unexpected(set.error());
  return limit_json(*set);
}

}  // namespace shardfs::app
