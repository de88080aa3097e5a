#include "fs/directories.h"

#include <cerrno>
#include <string_view>

#include "base/log.h"
#include "fs/attributes.h"

namespace shardfs::fs {
namespace {

/// FNV-1a, 64 bits, over all that a cached readdir shows: names, kinds, and versions (through st_ino).
class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<uint8_t>(c));
    add_byte(0);
  }
  void add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<uint8_t>(number >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  uint64_t value_ = 0xcbf29ce484222325;
};

uint64_t digest_of(const tree::Listing& listing) {
  Digest digest;
  for (const auto& listed : listing.names) {
    digest.add(listed.name);
    digest.add(static_cast<uint64_t>(listed.kind));
    digest.add(listed.size_bytes);
    digest.add(listed.etag);
    digest.add(static_cast<uint64_t>(listed.last_modified.time_since_epoch().count()));
  }
  return digest.value();
}

}  // namespace

OpenDirectoryReply Directories::open(NodeId node, std::shared_ptr<const tree::Listing> listing) {
  auto open = std::make_shared<Open>();
  open->node = node;
  if (const auto self = tree_.find(node)) {
    open->st_ino = open->parent_st_ino = self->st_ino;
    if (const auto parent = tree_.find(self->parent)) open->parent_st_ino = parent->st_ino;
  }
  OpenDirectoryReply reply;
  reply.same_listing = same_as_last(node, listing);
  open->listing = std::move(listing);
  reply.handle = handles_.add(std::move(open));
  meters_.open_directories.add(1);
  return reply;
}

bool Directories::same_as_last(NodeId node, const std::shared_ptr<const tree::Listing>& listing) {
  {
    std::lock_guard lock(mutex_);
    const auto place = shown_.find(node);
    if (place != shown_.end() && place->second.listing.lock() == listing) return true;
  }
  const uint64_t digest = digest_of(*listing);
  std::lock_guard lock(mutex_);
  auto [place, first] = shown_.try_emplace(node);
  const bool same = !first && place->second.digest == digest;
  place->second = {listing, digest};
  return same;
}

int Directories::read(HandleId handle, uint64_t offset, bool with_attributes,
                      const std::function<bool(const DirectoryEntry&)>& emit) {
  const auto open = handles_.find(handle);
  if (!open) return EBADF;
  const auto& names = open->listing->names;
  if (offset <= 0 && !emit({".", type_of(open->st_ino, tree::Kind::kDirectory), 0, {}, 1})) return 0;
  if (offset <= 1 && !emit({"..", type_of(open->parent_st_ino, tree::Kind::kDirectory), 0, {}, 2})) return 0;
  for (uint64_t i = offset < 2 ? 0 : offset - 2; i < names.size(); ++i) {
    if (!emit_name(*open, names[i], i + 3, with_attributes, emit)) return 0;
  }
  return 0;
}

bool Directories::emit_name(const Open& open, const tree::ListedName& listed, uint64_t next_offset,
                            bool with_attributes, const std::function<bool(const DirectoryEntry&)>& emit) {
  DirectoryEntry entry;
  entry.name = listed.name;
  entry.next_offset = next_offset;
  const auto node = tree_.enter(open.node, listed);
  if (!node) {
    // The name is there, says the store: show it without attributes rather than lose it.
    base::warn_once("fs: enter failed", "a listed name can't be entered: {}: {}", listed.name, node.error().message);
    entry.attributes = type_of(next_offset, listed.kind);
    return emit(entry);
  }
  entry.attributes = with_attributes ? attributes_of(*node, options_) : type_of(node->st_ino, node->kind);
  if (with_attributes) {
    entry.node = node->id;
    entry.valid_for = node->valid_for;
  }
  const bool taken = emit(entry);
  if (!taken || !with_attributes) tree_.forget(node->id, 1);
  return taken;
}

void Directories::close(HandleId handle) {
  if (handles_.remove(handle)) meters_.open_directories.add(-1);
}

void Directories::forget(NodeId node) {
  std::lock_guard lock(mutex_);
  shown_.erase(node);
}

void Directories::close_all() {
  for (const HandleId handle : handles_.all()) close(handle);
}

}  // namespace shardfs::fs
