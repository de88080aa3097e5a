#include "cache/map_file.h"

#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

namespace shardfs::cache {
namespace {

using base::Code;
using base::Result;

static_assert(std::endian::native == std::endian::little, "the map file is little-endian and is mapped as it is");

constexpr std::array<char, 8> kMagic = {'S', 'H', 'R', 'D', 'M', 'A', 'P', '1'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kTextLimitBytes = 64 * 1024;  // of the four parts of an ObjectId; S3 keys end at 1,024

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t header_bytes = 0;  // where the entries begin
  uint64_t size_bytes = 0;    // of the object
  uint32_t block_bytes = kBlockBytes;
  uint32_t block_count = 0;
  uint64_t header_checksum = 0;  // of all of the header but itself, and the words that change
  uint64_t complete = 0;
  uint64_t dead = 0;
  uint64_t last_use_ms = 0;
  std::array<uint32_t, 4> text_bytes{};  // endpoint, bucket, key, version; the texts follow without separators
};
static_assert(sizeof(Header) == 80 && offsetof(Header, header_checksum) == 32 && offsetof(Header, complete) == 40 &&
              offsetof(Header, dead) == 48 && offsetof(Header, last_use_ms) == 56 &&
              offsetof(Header, text_bytes) == 64);

uint64_t text_bytes_of(const store::ObjectId& id) {
  return id.endpoint.size() + id.bucket.size() + id.key.size() + id.version.size();
}

uint64_t header_bytes_for(uint64_t text_bytes) { return base::align_up(sizeof(Header) + text_bytes, kEntryBytes); }

// header: header_bytes long.
uint64_t checksum_of_header(std::span<const std::byte> header) {
  const uint64_t fixed = XXH3_64bits(header.data(), offsetof(Header, header_checksum));
  const auto rest = header.subspan(offsetof(Header, text_bytes));
  return XXH3_64bits_withSeed(rest.data(), rest.size(), fixed);
}

bool plausible(const Header& header, uint64_t file_bytes) {
  const auto& text = header.text_bytes;
  const uint64_t text_bytes = uint64_t{text[0]} + text[1] + text[2] + text[3];
  return header.magic == kMagic && text_bytes <= kTextLimitBytes &&
         header.header_bytes == header_bytes_for(text_bytes) && header.block_bytes == kBlockBytes &&
         header.size_bytes > 0 && header.size_bytes / kBlockBytes < UINT32_MAX &&
         header.block_count == block_count_of(header.size_bytes) &&
         file_bytes == header.header_bytes + header.block_count * kEntryBytes;
}

}  // namespace

uint64_t tag_of_boot(const std::string& boot_id) {
  const uint64_t tag = XXH3_64bits(boot_id.data(), boot_id.size());
  return tag == kAbsent ? 1 : tag;
}

uint32_t block_count_of(uint64_t size_bytes) {
  return static_cast<uint32_t>((size_bytes + kBlockBytes - 1) / kBlockBytes);
}

base::ByteRange range_of_block(uint64_t size_bytes, uint32_t block) {
  const uint64_t begin = uint64_t{block} * kBlockBytes;
  return {begin, std::min(size_bytes, begin + kBlockBytes)};
}

uint64_t checksum_of(std::span<const std::byte> block) { return XXH3_64bits(block.data(), block.size()); }

uint64_t MapFile::image_bytes(const store::ObjectId& id, uint64_t size_bytes) {
  return header_bytes_for(text_bytes_of(id)) + block_count_of(size_bytes) * kEntryBytes;
}

std::vector<std::byte> MapFile::image(const store::ObjectId& id, uint64_t size_bytes, int64_t last_use_ms) {
  std::vector<std::byte> bytes(image_bytes(id, size_bytes));
  Header header;
  header.header_bytes = static_cast<uint32_t>(header_bytes_for(text_bytes_of(id)));
  header.size_bytes = size_bytes;
  header.block_count = block_count_of(size_bytes);
  header.last_use_ms = static_cast<uint64_t>(last_use_ms);
  uint64_t at = sizeof(Header);
  size_t part = 0;
  for (const auto* text : {&id.endpoint, &id.bucket, &id.key, &id.version}) {
    header.text_bytes[part++] = static_cast<uint32_t>(text->size());
    if (!text->empty()) std::memcpy(bytes.data() + at, text->data(), text->size());
    at += text->size();
  }
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.header_checksum = checksum_of_header(std::span(bytes).first(header.header_bytes));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Result<MapFile> MapFile::open(base::Disk& disk, const std::string& path) {
  const auto damaged = [&](const char* what) { return base::fail(Code::kInvalid, "map " + path + ": " + what); };
  MapFile map;
  auto fd = disk.open(path, O_RDWR);
  if (!fd) return tl::unexpected(fd.error());
  map.fd_ = std::move(*fd);
  const auto stat = disk.stat(map.fd());
  if (!stat) return tl::unexpected(stat.error());
  map.file_bytes_ = stat->size_bytes;
  // One read gets the header of all but the longest keys.
  std::vector<std::byte> bytes(std::min<uint64_t>(map.file_bytes_, 512));
  if (bytes.size() < sizeof(Header)) return damaged("cut short");
  if (auto got = disk.read_at(map.fd(), bytes, 0); !got) return tl::unexpected(got.error());
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic == kMagic && header.version > kVersion) {
    return base::fail(Code::kUnsupported, "map " + path + ": of a newer format");
  }
  if (!plausible(header, map.file_bytes_)) return damaged("its header makes no sense");
  const size_t got_bytes = bytes.size();
  bytes.resize(header.header_bytes);
  if (got_bytes < header.header_bytes) {
    if (auto got = disk.read_at(map.fd(), std::span(bytes).subspan(got_bytes), got_bytes); !got) {
      return tl::unexpected(got.error());
    }
  }
  if (checksum_of_header(bytes) != header.header_checksum) return damaged("the checksum of its header is wrong");
  map.header_bytes_ = header.header_bytes;
  map.size_bytes_ = header.size_bytes;
  map.block_count_ = header.block_count;
  const char* text = reinterpret_cast<const char*>(bytes.data()) + sizeof(Header);
  size_t part = 0;
  for (auto* into : {&map.id_.endpoint, &map.id_.bucket, &map.id_.key, &map.id_.version}) {
    into->assign(text, header.text_bytes[part]);
    text += header.text_bytes[part++];
  }
  auto mapping = base::Mapping::open(map.fd(), map.file_bytes_);
  if (!mapping) return tl::unexpected(mapping.error());
  map.mapping_ = std::move(*mapping);
  return map;
}

MapFile::MapFile(MapFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      mapping_(std::move(other.mapping_)),
      file_bytes_(other.file_bytes_),
      header_bytes_(other.header_bytes_),
      size_bytes_(other.size_bytes_),
      block_count_(other.block_count_),
      id_(std::move(other.id_)),
      was_complete_(other.was_complete_.load(std::memory_order_relaxed)) {}

bool MapFile::complete() const {
  const uint64_t word = load(kCompleteAt);
  if (word != 0) was_complete_.store(true, std::memory_order_relaxed);
  return word == kComplete;
}

bool MapFile::was_complete() const { return complete() || was_complete_.load(std::memory_order_relaxed); }

bool MapFile::damaged() const { return load(0) != std::bit_cast<uint64_t>(kMagic) || mapping_.torn(); }

bool MapFile::all_present() const {
  for (uint32_t block = 0; block < block_count_; ++block) {
    if (state(block) == kAbsent) return false;
  }
  return true;
}

bool MapFile::all_in(uint64_t wanted) const {
  for (uint32_t block = 0; block < block_count_; ++block) {
    if (state(block) != wanted) return false;
  }
  return true;
}

Result<void> MapFile::set_state(base::Disk& disk, uint32_t block, uint64_t state) {
  return store(disk, entry(block) + 8, state);
}

Result<void> MapFile::set_present(base::Disk& disk, uint32_t block, uint64_t checksum, uint64_t boot_tag) {
  if (auto put = store(disk, entry(block), checksum); !put) return put;
  return set_state(disk, block, boot_tag);
}

uint64_t MapFile::load(uint64_t offset) const {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(mapping_.data() + offset), __ATOMIC_ACQUIRE);
}

Result<void> MapFile::store(base::Disk& disk, uint64_t offset, uint64_t value) {
  return disk.write_at(fd(), std::as_bytes(std::span(&value, 1)), offset);
}

}  // namespace shardfs::cache
