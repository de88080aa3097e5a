#include "teststore/control.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace shardfs::teststore {
namespace {

using nlohmann::json;

struct Bad {
  std::string what;
};

// Texts that need not be UTF-8 may come as NAME_base64.
std::string text_of(const json& in, const std::string& name, std::string_view otherwise = {}) {
  if (in.contains(name + "_base64")) {
    auto bytes = base64_decode(in[name + "_base64"].get<std::string>());
    if (!bytes) throw Bad{name + "_base64 is not base64"};
    return *bytes;
  }
  return in.value(name, std::string(otherwise));
}

Attributes attributes_of(const json& in) {
  Attributes out;
  out.content_type = in.value("content_type", out.content_type);
  out.content_encoding = in.value("content_encoding", "");
  out.storage_class = in.value("storage_class", out.storage_class);
  out.restore = in.value("restore", "");
  out.etag = in.value("etag", "");
  if (in.contains("last_modified")) {
    out.last_modified = std::chrono::system_clock::from_time_t(in["last_modified"].get<time_t>());
  }
  return out;
}

Match match_of(const json& in) {
  Match out;
  out.method = in.value("method", "");
  if (in.contains("kind")) {
    out.kind = kind_named(in["kind"].get<std::string>());
    if (!out.kind) throw Bad{"unknown kind"};
  }
  out.bucket = in.value("bucket", "");
  out.key = text_of(in, "key");
  out.range_begin_at_least = in.value("range_begin_at_least", uint64_t{0});
  out.access_key = in.value("access_key", "");
  out.header = in.value("header", "");
  return out;
}

Fault fault_of(const json& in) {
  Fault out;
  out.match = match_of(in.value("match", json::object()));
  const auto action = action_named(in.at("action").get<std::string>());
  if (!action) throw Bad{"unknown action"};
  out.action = *action;
  out.at_byte = in.value("at_byte", out.at_byte);
  out.status = in.value("status", out.status);
  out.code = in.value("code", out.code);
  out.retry_after_s = in.value("retry_after", out.retry_after_s);
  out.delay = std::chrono::milliseconds(in.value("delay_ms", int64_t{0}));
  out.bytes_per_s = in.value("bytes_per_s", out.bytes_per_s);
  const json headers = in.value("headers", json::object());  // outlives the loop over it
  for (const auto& [name, value] : headers.items()) {
    out.headers.emplace_back(name, value.get<std::string>());
  }
  out.times = in.value("times", out.times);
  out.skip = in.value("skip", out.skip);
  out.concurrent_above = in.value("concurrent_above", out.concurrent_above);
  out.probability = in.value("probability", out.probability);
  out.seed = in.value("seed", out.seed);
  return out;
}

json kinds_json(const KindCounts& counts) {
  json out = json::object();
  for (size_t i = 0; i < counts.size(); ++i) out[std::string(name_of(static_cast<Kind>(i)))] = counts[i];
  return out;
}

json stats_json(const Stats& stats) {
  json out = {{"requests", kinds_json(stats.requests)},
              {"body_bytes", stats.body_bytes},
              {"connections_accepted", stats.connections_accepted},
              {"connections_open", stats.connections_open},
              {"requests_now", stats.requests_now},
              {"max_concurrent_requests", stats.max_concurrent_requests},
              {"statuses", json::object()},
              {"keys", json::array()}};
  for (const auto& [status, count] : stats.statuses) out["statuses"][std::to_string(status)] = count;
  for (const auto& [name, key] : stats.keys) {
    json ranges = json::array();
    for (const AskedRange& range : key.ranges) ranges.push_back({range.begin, range.end});
    out["keys"].push_back({{"bucket", name.first},
                           {"key", name.second},
                           {"key_base64", base64_encode(name.second)},
                           {"requests", kinds_json(key.requests)},
                           {"body_bytes", key.body_bytes},
                           {"max_concurrent", key.max_concurrent},
                           {"ranges", std::move(ranges)}});
  }
  return out;
}

json log_json(const std::vector<RequestRecord>& log) {
  json out = json::array();
  for (const RequestRecord& record : log) {
    out.push_back({{"number", record.number},
                   {"kind", name_of(record.kind)},
                   {"method", record.method},
                   {"bucket", record.bucket},
                   {"key", record.key},
                   {"key_base64", base64_encode(record.key)},
                   {"range", record.range},
                   {"asked", {record.asked.begin, record.asked.end}},
                   {"status", record.status}});
  }
  return out;
}

// {bucket, key, and one of: bytes | size, seed | file; attributes}, or {objects: [those]}. Answers the last ETag.
json put(const json& in, Core& core) {
  if (in.contains("objects")) {
    json last = json::object();
    for (const json& one : in["objects"]) last = put(one, core);
    return last;
  }
  const std::string bucket = in.at("bucket");
  const std::string key = text_of(in, "key");
  if (in.contains("file")) {
    auto etag = core.objects.put_file(bucket, key, in["file"], attributes_of(in));
    if (!etag) throw Bad{etag.error().message};
    return {{"etag", *etag}};
  }
  if (in.contains("size")) {
    return {{"etag",
             core.objects.put_generated(bucket, key, in["size"], in.value("seed", uint64_t{0}), attributes_of(in))}};
  }
  return {{"etag", core.objects.put(bucket, key, text_of(in, "bytes"), attributes_of(in))}};
}

json shape(const json& in, Core& core) {
  core.shape.change([&](Shape& shape) {
    if (in.contains("first_byte_ms")) shape.first_byte_delay = std::chrono::milliseconds(in["first_byte_ms"]);
    if (in.contains("list_ms")) shape.list_delay = std::chrono::milliseconds(in["list_ms"]);
    if (in.contains("connection_mbps")) {  // 10^6 bytes a second
      shape.connection_bytes_per_s = static_cast<uint64_t>(in["connection_mbps"].get<double>() * 1e6);
    }
  });
  return json::object();
}

json credentials(const json& in, Core& core) {
  const std::string access_key = in.at("access_key");
  const std::string secret_key = in.value("secret_key", "");
  core.credentials.change([&](Credentials& all) {
    if (secret_key.empty()) {
      all.erase(access_key);
    } else {
      all[access_key] = {secret_key, in.value("session_token", "")};
    }
  });
  return json::object();
}

// GET waiting?count=N&patience_ms=M blocks until N wait.
json waiting(const json& in, Core& core) {
  json out = json::object();
  if (in.contains("count")) {
    out["reached"] = core.holds.await_waiting(std::stoul(in["count"].get<std::string>()),
                                              std::chrono::milliseconds(std::stol(in.value("patience_ms", "30000"))));
  }
  out["waiting"] = core.holds.waiting();
  return out;
}

json fired(Core& core) {
  json out = json::object();
  for (const auto& [id, times] : core.faults.fired()) out[std::to_string(id)] = times;
  return out;
}

using Handler = std::function<json(const json&, Core&)>;

// A POST's argument is its JSON body, a GET's its query.
const std::map<std::string, Handler, std::less<>>& handlers() {
  static const std::map<std::string, Handler, std::less<>> all = {
      {"GET stats", [](const json&, Core& core) { return stats_json(core.counters.stats()); }},
      {"GET log", [](const json&, Core& core) { return log_json(core.counters.log()); }},
      {"GET waiting", waiting},
      {"GET fired", [](const json&, Core& core) { return fired(core); }},
      {"POST reset",
       [](const json&, Core& core) {
         core.counters.reset();
         return json::object();
       }},
      {"POST make_bucket",
       [](const json& in, Core& core) {
         core.objects.make_bucket(in.at("bucket").get<std::string>());
         return json::object();
       }},
      {"POST put", put},
      {"POST remove",
       [](const json& in, Core& core) {
         return json{{"removed", core.objects.remove(in.at("bucket").get<std::string>(), text_of(in, "key"))}};
       }},
      {"POST shape", shape},
      {"POST credentials", credentials},
      {"POST fault",
       [](const json& in, Core& core) {
         return json{{"id", core.faults.add(fault_of(in))}};
       }},
      {"POST clear_faults",
       [](const json&, Core& core) {
         core.faults.clear();
         return json::object();
       }},
      {"POST hold",
       [](const json& in, Core& core) {
         return json{
             {"id", core.holds.add(match_of(in.value("match", json::object())), in.value("at_byte", int64_t{-1}))}};
       }},
      {"POST release",
       [](const json& in, Core& core) {
         core.holds.release(in.value("id", uint64_t{0}));
         return json::object();
       }},
  };
  return all;
}

Reply json_reply(unsigned status, const json& out) {
  Reply reply;
  reply.status = status;
  reply.set("Content-Type", "application/json");
  reply.text = out.dump(-1, ' ', false, json::error_handler_t::replace);
  return reply;
}

}  // namespace

Reply answer_control(const Request& request, Core& core) {
  try {
    const std::string name = request.method + " " + request.raw_path.substr(kControlPrefix.size());
    const auto handler = handlers().find(name);
    if (handler == handlers().end()) return json_reply(404, {{"error", "no such thing: " + name}});
    json in = json::object();
    if (request.method == "GET") {
      for (const auto& [parameter, value] : parse_query(request.raw_query)) in[parameter] = value;
    } else if (!request.body.empty()) {
      in = json::parse(request.body);
    }
    return json_reply(200, handler->second(in, core));
  } catch (const Bad& bad) {
    return json_reply(400, {{"error", bad.what}});
  } catch (const std::exception& error) {
    return json_reply(400, {{"error", error.what()}});
  }
}

}  // namespace shardfs::teststore
