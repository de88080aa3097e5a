// The other process of the cache's tests: opens the folder and does one thing a line. See tests/unit/cache/support.h.
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;

namespace {

std::string name_of(FillAnswer answer) {
  switch (answer) {
    case FillAnswer::kGranted: return "granted";
    case FillAnswer::kResident: return "resident";
    case FillAnswer::kBusy: return "busy";
    case FillAnswer::kRefused: return "refused";
  }
  return "";
}

struct Session {
  std::unique_ptr<Cache> cache;
  std::map<std::string, std::shared_ptr<CacheFile>> files;
  std::map<std::string, std::unique_ptr<Pin>> pins;

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb, key;
    uint64_t number = 0;
    words >> verb >> key >> number;
    if (verb == "open") {
      files[key] = cache->open_file(test::object(key), number);
      return files[key] ? "ok" : "null";
    }
    if (verb == "flush") {
      cache->flush();
      return "ok";
    }
    if (verb == "used") return std::to_string(cache->stats().used_bytes);
    if (verb == "unpin") {
      pins.erase(key);
      return "ok";
    }
    const auto file = files[key];
    const auto block = static_cast<uint32_t>(number);
    if (!file) return "no file";
    if (verb == "begin") return name_of(file->begin_fill(block));
    if (verb == "write") {
      return file->write_block(block, test::block_of(key, file->size_bytes(), block)) ? "ok" : "error";
    }
    if (verb == "abandon") file->abandon_fill(block);
    if (verb == "fill") return test::fill(*file, key) ? "ok" : "error";
    if (verb == "check") return test::reads_right(*file, key) ? "ok" : "error";
    if (verb == "dead") return file->dead() ? "yes" : "no";
    if (verb == "complete") return file->complete() ? "yes" : "no";
    if (verb == "pin") return (pins[key] = file->pin()) ? "ok" : "null";
    if (verb == "close") files.erase(key);
    return "ok";
  }
};

}  // namespace

int main(int, char** arguments) {
  base::SystemDisk disk;
  base::SystemClock clock;
  base::Metrics metrics;
  CacheOptions options;
  options.folder = arguments[1];
  options.limit.bytes = std::stoull(arguments[2]);
  options.boot_id = arguments[3];
  auto opened = Cache::open(options, disk, clock, metrics);
  Session session;
  if (opened) session.cache = std::move(*opened);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << (opened ? session.answer(line) : "not open: " + opened.error().message) << std::endl;
  }
  return 0;
}
