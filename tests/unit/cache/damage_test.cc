// Disks that lie, fail, fill up or lose power; files that are not what they were.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include "cache/map_file.h"
#include "cache/naming.h"
#include "support.h"

using namespace shardfs;
using namespace shardfs::cache;
using namespace shardfs::cache::test;

namespace {

void flip_byte(const std::filesystem::path& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char c = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(c ^ 1));
}

std::vector<std::byte> read_block(CacheFile& file, uint32_t block) {
  std::vector<std::byte> bytes(range_of_block(file.size_bytes(), block).size());
  return file.read(range_of_block(file.size_bytes(), block), bytes) ? bytes : std::vector<std::byte>();
}

}  // namespace

TEST_CASE("a flipped byte in an incomplete file is found, dropped and can be filled again") {
  const TestFolder folder;
  const uint64_t size = 3 * kMiB;
  {
    TestCache cache(folder);
    const auto file = cache->open_file(object("k"), size);
    for (const uint32_t block : {0U, 1U}) {
      REQUIRE(file->begin_fill(block) == FillAnswer::kGranted);
      REQUIRE(file->write_block(block, block_of("k", size, block)));
    }
  }
  flip_byte(folder.files(".data")[0], kMiB + 777);
  TestCache cache(folder, 64 * kMiB, "boot-2");
  const auto file = cache->find_file(object("k"), size);
  REQUIRE(file);
  const uint64_t before = cache->stats().used_bytes;
  CHECK(read_block(*file, 0) == block_of("k", size, 0));
  std::vector<std::byte> few(10);
  const auto bad = file->read({kMiB + 10, kMiB + 20}, few);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == base::Code::kIntegrity);
  CHECK(cache->stats().bad_blocks == 1);
  CHECK_FALSE(file->has_block(1));
  CHECK_FALSE(file->dead());
  CHECK(nearly(cache->stats().used_bytes, before - kMiB));
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
  REQUIRE(fill(*file, "k"));
  CHECK(file->verified());
  CHECK(reads_right(*file, "k"));
}

TEST_CASE("a flipped byte in a complete file: that block is dropped, never punched, and written again in its place") {
  const TestFolder folder;
  const uint64_t size = 2 * kMiB + 5;
  {
    TestCache cache(folder);
    REQUIRE(fill(*cache->open_file(object("k"), size), "k"));
  }
  flip_byte(folder.files(".data")[0], 5);
  TestCache cache(folder, 64 * kMiB, "boot-2");
  auto file = cache->find_file(object("k"), size);
  const auto backing = file->backing_descriptor();
  REQUIRE(backing);
  const auto allocated = cache.disk->stat(backing->get())->allocated_bytes;
  const uint64_t used = cache->stats().used_bytes;
  std::vector<std::byte> bytes(100);
  const auto bad = file->read({0, 100}, bytes);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == base::Code::kIntegrity);
  CHECK(cache->stats().bad_blocks == 1);
  CHECK_FALSE(file->dead());
  CHECK_FALSE(file->complete());
  CHECK_FALSE(file->verified());
  CHECK_FALSE(file->has_block(0));
  CHECK(file->has_block(1));
  CHECK(file->resident_bytes() == kMiB + 5);
  CHECK(cache.disk->stat(backing->get())->allocated_bytes == allocated);
  CHECK(nearly(cache->stats().used_bytes, used));
  CHECK(read_block(*file, 1) == block_of("k", size, 1));
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  CHECK(cache.gauge("cache_reserved_bytes") == 0);  // it has its space already
  file->abandon_fill(0);
  CHECK(cache.disk->stat(backing->get())->allocated_bytes == allocated);
  REQUIRE(fill(*file, "k"));
  CHECK(file->complete());
  CHECK(reads_right(*file, "k"));
  CHECK(file->verified());
  CHECK(nearly(cache->stats().used_bytes, used));
  std::vector<std::byte> seen(kMiB);
  REQUIRE(cache.disk->read_at(backing->get(), seen, 0));
  CHECK(seen == block_of("k", size, 0));
  file.reset();
  TestCache later(folder, 64 * kMiB, "boot-2");
  CHECK(later->find_file(object("k"), size)->verified());
  CHECK(nearly(later->stats().used_bytes, used));
}

TEST_CASE("a file with a dropped block is continued by the next mount, and counts what it occupies") {
  const TestFolder folder;
  const uint64_t size = 3 * kMiB;
  uint64_t used = 0;
  {
    TestCache cache(folder);
    REQUIRE(fill(*cache->open_file(object("k"), size), "k"));
    used = cache->stats().used_bytes;
  }
  flip_byte(folder.files(".data")[0], kMiB + 5);
  {
    Child other(folder, 64 * kMiB, "boot-2");
    REQUIRE(other.ask("open k " + std::to_string(size)) == "ok");
    CHECK(other.ask("check k") == "error");
    CHECK(other.ask("complete k") == "no");
    other.kill();
  }
  TestCache cache(folder, 64 * kMiB, "boot-2");  // counts anew, since a mount died
  CHECK(nearly(cache->stats().used_bytes, used));
  CHECK(folder.allocated_bytes() >= size);  // not punched by the count
  const auto file = cache->find_file(object("k"), size);
  REQUIRE(file);
  CHECK(file->resident_bytes() == 2 * kMiB);
  REQUIRE(fill(*file, "k"));
  CHECK(reads_right(*file, "k"));
  CHECK(nearly(cache->stats().used_bytes, used));
}

TEST_CASE("after a power cut what was not synced is dropped, what was complete is kept") {
  const TestFolder folder;
  FaultyDisk disk;
  const uint64_t size = 8 * kMiB;
  {
    TestCache cache(folder, 64 * kMiB, "boot-1", &disk);
    REQUIRE(fill(*cache->open_file(object("whole"), size), "whole"));
    REQUIRE(fill(*cache->open_file(object("small"), 1000), "small"));
    const auto partial = cache->open_file(object("partial"), size);
    REQUIRE(partial->begin_fill(0) == FillAnswer::kGranted);
    REQUIRE(partial->write_block(0, block_of("partial", size, 0)));
    const auto maps = folder.files(".map");
    REQUIRE(maps.size() == 3);
    // The maps reach the disk, the data do not.
    for (const auto& path : maps) {
      const auto fd = disk.open(path.string(), O_RDONLY);
      REQUIRE(disk.sync(fd->get()));
    }
  }
  disk.cut_power();
  TestCache cache(folder, 64 * kMiB, "boot-2");
  const auto whole = cache->find_file(object("whole"), size);
  REQUIRE(whole);
  CHECK(whole->complete());
  CHECK(reads_right(*whole, "whole"));
  const auto partial = cache->find_file(object("partial"), size);
  REQUIRE(partial);
  CHECK(read_block(*partial, 0).empty());
  CHECK_FALSE(partial->has_block(0));
  CHECK(cache->stats().bad_blocks == 1);
  REQUIRE(fill(*partial, "partial"));
  CHECK(reads_right(*partial, "partial"));
  auto small = cache->find_file(object("small"), 1000);
  REQUIRE(small);
  CHECK_FALSE(small->verified());
  CHECK(read_block(*small, 0).empty());
  CHECK_FALSE(small->complete());
  CHECK(fill(*small, "small"));
  CHECK(reads_right(*small, "small"));
}

TEST_CASE("a full disk is never an error beyond cache full; the cache rests, then goes on") {
  const TestFolder folder;
  FaultyDisk disk;
  TestCache cache(folder, 64 * kMiB, "boot-1", &disk);
  REQUIRE(fill(*cache->open_file(object("old"), kMiB), "old"));
  const auto file = cache->open_file(object("k"), 2 * kMiB);
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  disk.fail_suffix = ".data";
  disk.fail_writes = ENOSPC;
  const auto full = file->write_block(0, block_of("k", 2 * kMiB, 0));
  REQUIRE_FALSE(full);
  CHECK(full.error().code == base::Code::kCacheFull);
  CHECK_FALSE(file->has_block(0));
  CHECK(cache->stats().failing);
  CHECK(cache.counter("cache_write_errors") == 1);
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
  disk.fail_writes = 0;
  CHECK(file->begin_fill(0) == FillAnswer::kRefused);
  CHECK_FALSE(cache->open_file(object("new"), kMiB));
  CHECK(reads_right(*cache->open_file(object("old"), kMiB), "old"));
  cache.clock.advance(std::chrono::seconds(6));
  CHECK_FALSE(cache->stats().failing);
  REQUIRE(fill(*file, "k"));
  CHECK(reads_right(*file, "k"));
}

TEST_CASE("an I/O error of map or data drops the block; one of sync drops the file") {
  const TestFolder folder;
  FaultyDisk disk;
  TestCache cache(folder, 64 * kMiB, "boot-1", &disk);
  const auto file = cache->open_file(object("k"), 8 * kMiB);
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  disk.fail_suffix = ".map";
  disk.fail_writes = EIO;
  const auto failed = file->write_block(0, block_of("k", 8 * kMiB, 0));
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == base::Code::kCacheIo);
  CHECK_FALSE(file->has_block(0));
  disk.fail_writes = 0;
  cache.clock.advance(std::chrono::seconds(6));
  for (uint32_t block = 0; block < 8; ++block) {
    REQUIRE(file->begin_fill(block) == FillAnswer::kGranted);
    REQUIRE(file->write_block(block, block_of("k", 8 * kMiB, block)));
  }
  disk.fail_syncs = EIO;
  const auto finished = file->finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().code == base::Code::kCacheIo);
  CHECK(file->dead());
  CHECK_FALSE(file->complete());
  disk.fail_syncs = 0;
  CHECK(cache.gauge("cache_reserved_bytes") == 0);
}

TEST_CASE("a cut, damaged or missing map means: not cached") {
  const TestFolder folder;
  for (const int kind : {0, 1, 2, 3}) {
    {
      TestCache cache(folder);
      REQUIRE(fill(*cache->open_file(object("k"), 2 * kMiB), "k"));
    }
    const auto map = folder.files(".map")[0];
    if (kind == 0) std::filesystem::resize_file(map, 90);
    if (kind == 1) flip_byte(map, 85);
    if (kind == 2) std::filesystem::remove(map);
    if (kind == 3) std::filesystem::resize_file(folder.files(".data")[0], kMiB);
    CAPTURE(kind);
    TestCache cache(folder);
    CHECK_FALSE(cache->find_file(object("k"), 2 * kMiB));
    const auto file = cache->open_file(object("k"), 2 * kMiB);
    REQUIRE(file);
    CHECK(file->resident_bytes() == 0);
    CHECK(fill(*file, "k"));
    CHECK(reads_right(*file, "k"));
  }
}

TEST_CASE("a map that is cut or overwritten while it is in use: the file is given up, nothing else") {
  const TestFolder folder;
  const uint64_t size = 2000 * kMiB + 1;  // its map has several pages
  for (const std::string damage : {"cut to nothing", "cut at a block's entry", "zeros"}) {
    CAPTURE(damage);
    TestCache cache(folder, 4096 * kMiB);
    auto file = cache->open_file(object("k"), size);
    REQUIRE(file);
    for (const uint32_t block : {1U, 2000U}) {
      REQUIRE(file->begin_fill(block) == FillAnswer::kGranted);
      REQUIRE(file->write_block(block, block_of("k", size, block)));
    }
    REQUIRE(file->begin_fill(1999) == FillAnswer::kGranted);
    REQUIRE(file->begin_fill(1998) == FillAnswer::kGranted);
    auto other = cache->open_file(object("other"), kMiB);
    REQUIRE(fill(*other, "other"));
    for (const auto& map : folder.files(".map")) {
      const auto bytes = std::filesystem::file_size(map);
      if (bytes < 10000) continue;
      std::filesystem::resize_file(map, damage == "cut at a block's entry" ? 5000 : 0);
      if (damage == "zeros") std::filesystem::resize_file(map, bytes);
    }
    CHECK_FALSE(file->has_block(2000));
    CHECK_FALSE(file->complete());
    CHECK_FALSE(file->verified());
    CHECK(file->dead());
    CHECK(read_block(*file, 2000).empty());
    CHECK(file->begin_fill(0) == FillAnswer::kRefused);
    CHECK_FALSE(file->pin());
    static_cast<void>(file->write_block(1999, block_of("k", size, 1999)));
    file->abandon_fill(1998);
    CHECK(file->dead());
    CHECK(cache.gauge("cache_reserved_bytes") == 0);
    CHECK(reads_right(*other, "other"));
    file.reset();
    file = cache->open_file(object("k"), size);
    REQUIRE(file);
    CHECK(file->resident_bytes() == 0);
    REQUIRE(file->begin_fill(2000) == FillAnswer::kGranted);
    REQUIRE(file->write_block(2000, block_of("k", size, 2000)));
    CHECK(read_block(*file, 2000) == block_of("k", size, 2000));
    cache->flush();
    CHECK(cache->stats().used_bytes <= 3 * kMiB);
    file.reset();
    other.reset();
    cache.close();
    std::filesystem::remove_all(folder.cache());
  }
}

TEST_CASE("a complete file keeps its bytes for those who read past the daemon when its map is damaged") {
  const TestFolder folder;
  TestCache cache(folder);
  const uint64_t size = 3 * kMiB;
  auto file = cache->open_file(object("k"), size);
  REQUIRE(fill(*file, "k"));
  REQUIRE(file->verified());
  auto pin = file->pin();
  const auto backing = file->backing_descriptor();
  REQUIRE(backing);
  std::filesystem::resize_file(folder.files(".map")[0], 0);
  CHECK_FALSE(file->complete());
  CHECK_FALSE(file->verified());
  CHECK(file->begin_fill(0) == FillAnswer::kRefused);
  pin.reset();
  file.reset();
  // Still open through the backing descriptor: it is not made anew, and not removed.
  cache->flush();
  CHECK_FALSE(cache->open_file(object("k"), size));
  std::vector<std::byte> bytes(size);
  REQUIRE(cache.disk->read_at(backing->get(), bytes, 0));
  CHECK(bytes == bytes_of("k", {0, size}));
}

TEST_CASE("a damaged budget page is made anew by a count, also while mounts use it") {
  const TestFolder folder;
  const std::string page = folder.cache() + "/budget";
  const uint64_t limit = 16 * kMiB;
  TestCache cache(folder, limit);
  REQUIRE(fill(*cache->open_file(object("a"), 3 * kMiB), "a"));
  Child child(folder, limit);
  REQUIRE(child.ask("used") != "");
  cache->flush();
  const uint64_t used = cache->stats().used_bytes;
  const auto file = cache->open_file(object("b"), 3 * kMiB);
  REQUIRE(file->begin_fill(0) == FillAnswer::kGranted);
  const std::string garbage(4096, '\xa5');
  const auto overwrite = [&](uint64_t offset, uint64_t bytes) {
    std::fstream out(page, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    out.write(garbage.data(), static_cast<std::streamsize>(bytes));
  };
  for (const std::string damage :
       {"cut", "garbage", "committed bytes", "a slot that nobody holds", "own slot", "zeros"}) {
    CAPTURE(damage);
    if (damage == "cut" || damage == "zeros") std::filesystem::resize_file(page, 0);
    if (damage == "zeros") std::filesystem::resize_file(page, 4096);
    if (damage == "garbage") overwrite(0, 4096);
    if (damage == "committed bytes") overwrite(16, 8);
    if (damage == "a slot that nobody holds") overwrite(64 + 64 * 40, 24);
    if (damage == "own slot") overwrite(64, 24);
    CHECK(cache->stats().used_bytes <= limit);
    cache->flush();
    CHECK(nearly(cache->stats().used_bytes, used + kMiB));
    CHECK(cache.gauge("cache_reserved_bytes") == kMiB);
  }
  // One that comes while it is damaged finds its way too.
  overwrite(0, 4096);
  {
    TestCache later(folder, limit);
    REQUIRE(later.cache);
    CHECK(later->stats().used_bytes <= used + 2 * kMiB);
  }
  REQUIRE(file->write_block(0, block_of("b", 3 * kMiB, 0)));
  REQUIRE(fill(*file, "b"));
  for (const char* key : {"c", "d", "e", "f"}) {
    REQUIRE(fill(*cache->open_file(object(key), 3 * kMiB), key));
    CHECK(cache->stats().used_bytes <= limit);
    CHECK(folder.allocated_bytes() <= limit);
  }
  CHECK(child.ask("used") != "");
}

TEST_CASE("two objects with one hash: the second is not cached") {
  const TestFolder folder;
  const uint64_t size = kMiB + 1;
  {
    TestCache cache(folder);
    REQUIRE(fill(*cache->open_file(object("a"), size), "a"));
  }
  // As if b had the hash of a.
  for (const auto kind : {FileKind::kData, FileKind::kMap}) {
    const auto from = folder.files(kind == FileKind::kData ? ".data" : ".map")[0];
    const ObjectHash hash = hash_of(object("b"), size);
    const auto directory = from.parent_path().parent_path() / to_hex(hash).substr(0, 2);
    std::filesystem::create_directories(directory);
    std::filesystem::rename(from, directory / to_string(FileName{hash, kind}));
  }
  TestCache cache(folder);
  CHECK_FALSE(cache->find_file(object("b"), size));
  CHECK_FALSE(cache->open_file(object("b"), size));
  CHECK(folder.files(".data").size() == 1);
}

TEST_CASE("a damaged or missing index is made anew from the maps") {
  const TestFolder folder;
  {
    TestCache cache(folder, 8 * kMiB);
    for (const char* key : {"a", "b"}) {
      REQUIRE(fill(*cache->open_file(object(key), 2 * kMiB), key));
      cache.clock.advance(std::chrono::seconds(10));
    }
    const auto a = cache->open_file(object("a"), 2 * kMiB);
    REQUIRE(reads_right(*a, "a"));
  }
  const std::string index = folder.cache() + "/index.db";
  SUBCASE("missing") { std::filesystem::remove(index); }
  SUBCASE("not a database") { std::ofstream(index, std::ios::trunc) << std::string(20000, 'x'); }
  SUBCASE("damaged inside") {
    std::fstream file(index, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(3 * 4096, '\xee');
  }
  SUBCASE("another schema") { std::ofstream(index, std::ios::trunc); }
  TestCache cache(folder, 8 * kMiB);
  cache->flush();
  cache->flush();
  CHECK(cache->stats().files == 2);
  CHECK(cache->stats().complete_files == 2);
  cache.clock.advance(std::chrono::minutes(10));
  // b is the longest unused: the maps know it too.
  REQUIRE(fill(*cache->open_file(object("c"), 4 * kMiB), "c"));
  CHECK(cache->find_file(object("a"), 2 * kMiB));
  CHECK_FALSE(cache->find_file(object("b"), 2 * kMiB));
}

TEST_CASE("an index that is cut, overwritten or removed while mounted: no crash, and it is made anew") {
  const TestFolder folder;
  TestCache cache(folder);
  for (const char* key : {"a", "b"}) REQUIRE(fill(*cache->open_file(object(key), 2 * kMiB), key));
  cache->flush();
  const std::string index = folder.cache() + "/index.db";
  // Nothing of it is mapped into memory: a file of SQLite's shared memory that is cut gives SIGBUS.
  CHECK_FALSE(std::filesystem::exists(index + "-shm"));
  CHECK_FALSE(std::filesystem::exists(index + "-wal"));
  SUBCASE("cut to nothing") { std::filesystem::resize_file(index, 0); }
  SUBCASE("cut in the middle") { std::filesystem::resize_file(index, 5000); }
  SUBCASE("zeros") {
    std::fstream file(index, std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(std::filesystem::file_size(index), '\0');
  }
  SUBCASE("foreign") {
    std::fstream file(index, std::ios::in | std::ios::out | std::ios::binary);
    file << "{\"something\": \"else\"}" << std::string(4096, ' ');
  }
  SUBCASE("removed") { std::filesystem::remove(index); }
  REQUIRE(fill(*cache->open_file(object("c"), 2 * kMiB), "c"));
  for (int i = 0; i < 4; ++i) cache->flush();
  CHECK(cache->stats().files == 3);
  CHECK(cache->stats().complete_files == 3);
  for (const char* key : {"a", "b", "c"}) CHECK(reads_right(*cache->find_file(object(key), 2 * kMiB), key));
}

TEST_CASE("the folder of a version with a write-ahead log is adopted") {
  const TestFolder folder;
  {
    TestCache cache(folder);
    REQUIRE(fill(*cache->open_file(object("a"), 2 * kMiB), "a"));
  }
  const std::string index = folder.cache() + "/index.db";
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(index.c_str(), &connection) == SQLITE_OK);
  REQUIRE(sqlite3_exec(connection, "PRAGMA journal_mode=WAL; UPDATE files SET last_use=last_use+1;", nullptr, nullptr,
                       nullptr) == SQLITE_OK);
  {
    TestCache beside(folder);  // while it is open there, it stays as it is
    beside->flush();
    CHECK(beside->stats().files == 1);
  }
  sqlite3_close(connection);
  TestCache cache(folder);
  cache->flush();
  CHECK(cache->stats().complete_files == 1);
  CHECK_FALSE(std::filesystem::exists(index + "-wal"));
}

TEST_CASE("litter of a killed mount goes at the next start, other files stay") {
  const TestFolder folder;
  { TestCache cache(folder); }
  const std::string directory = folder.cache() + "/objects/site/ab";
  std::filesystem::create_directories(directory);
  const std::string hash = "ab" + std::string(30, '0');
  for (const char* name : {".data", ".map.tmp"}) std::ofstream(directory + "/" + hash + name) << "litter";
  std::ofstream(directory + "/ab" + std::string(29, '1') + "f.map") << "litter";
  const std::vector<std::string> foreign = {directory + "/notes.txt", directory + "/" + hash + ".data.bak",
                                            directory + "/cd" + std::string(30, '0') + ".data",
                                            folder.cache() + "/objects/readme", folder.cache() + "/mine"};
  for (const auto& path : foreign) std::ofstream(path) << "foreign";
  {
    // Killed: the page says that it was not left clean.
    Child child(folder, 64 * kMiB);
    REQUIRE(child.ask("used") != "");
    child.kill();
  }
  TestCache cache(folder);
  REQUIRE(cache.cache);
  CHECK(folder.files(".map").empty());
  CHECK(folder.files(".tmp").empty());
  for (const auto& path : foreign) CHECK(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(directory + "/" + hash + ".data"));
}
