#include "tree/node_table.h"

#include <algorithm>
#include <utility>

#include "tree/names.h"

namespace shardfs::tree {

NodeTable::NodeTable(std::string prefix, base::WallTime directory_time)
    : prefix_(std::move(prefix)), directory_time_(directory_time), by_path_(0, PathHash{this}, SamePath{this}) {
  Record& root = by_id_[kRootNode];
  root.id = kRootNode;
  root.st_ino = kRootNode;
  root.kind = Kind::kDirectory;
  root.info.key = prefix_;
  root.info.last_modified = directory_time_;
  by_path_.insert(&root);
}

const NodeTable::Record& NodeTable::enter(NodeId parent, std::string_view path, const Known& known) {
  const auto [first, last] = by_path_.equal_range(path);
  for (auto place = first; place != last; ++place) {
    Record& record = **place;
    if (!record.retired && is_version(record, known)) {
      ++record.lookups;
      record.parent = parent;  // the directory may have been forgotten and found again
      return record;
    }
  }
  const NodeId id = next_id_++;
  Record& record = by_id_[id];
  record.id = id;
  record.kind = known.is_file() ? Kind::kFile : Kind::kDirectory;
  record.parent = parent;
  record.info.key.reserve(prefix_.size() + path.size());
  record.info.key.append(prefix_).append(path);
  if (known.is_file()) {
    record.info.size_bytes = known.size_bytes;
    record.info.etag = known.etag;
    record.info.last_modified = known.last_modified;
    record.info.storage_class = known.storage_class;
    record.info.archived = known.archived;
    record.st_ino = stable_inode_number(path, store::version_of(record.info));
  } else {
    record.info.last_modified = directory_time_;
    record.st_ino = stable_inode_number(path, {});
  }
  record.lookups = 1;
  by_path_.insert(&record);
  return record;
}

const NodeTable::Record* NodeTable::find(NodeId id) const {
  const auto place = by_id_.find(id);
  return place == by_id_.end() ? nullptr : &place->second;
}

const NodeTable::Record* NodeTable::youngest(std::string_view path) const {
  const Record* found = nullptr;
  const auto [first, last] = by_path_.equal_range(path);
  for (auto place = first; place != last; ++place) {
    if (found == nullptr || (*place)->id > found->id) found = *place;
  }
  return found;
}

std::vector<const NodeTable::Record*> NodeTable::below(std::string_view path) const {
  std::vector<const Record*> out;
  for (const auto& [id, record] : by_id_) {
    if (id != kRootNode && is_at_or_below(path_of(record), path)) out.push_back(&record);
  }
  return out;
}

void NodeTable::forget(NodeId id, uint64_t count) {
  const auto place = by_id_.find(id);
  if (place == by_id_.end() || id == kRootNode) return;
  Record& record = place->second;
  record.lookups -= std::min(record.lookups, count);
  if (record.lookups > 0) return;
  const auto [first, last] = by_path_.equal_range(path_of(record));
  for (auto same = first; same != last; ++same) {
    if (*same == &record) {
      by_path_.erase(same);
      break;
    }
  }
  by_id_.erase(place);
}

void NodeTable::retire(NodeId id) {
  const auto place = by_id_.find(id);
  if (place != by_id_.end() && place->second.kind == Kind::kFile) place->second.retired = true;
}

std::string_view NodeTable::path_of(const Record& record) const {
  return std::string_view(record.info.key).substr(prefix_.size());
}

bool NodeTable::is_version(const Record& record, const Known& known) {
  if (!known.is_present() || (record.kind == Kind::kFile) != known.is_file()) return false;
  if (record.kind == Kind::kDirectory) return true;
  if (record.info.size_bytes != known.size_bytes) return false;
  if (!known.etag.empty() && record.info.etag == known.etag) return true;
  store::ObjectInfo other;
  other.size_bytes = known.size_bytes;
  other.etag = known.etag;
  other.last_modified = known.last_modified;
  return store::same_version(record.info, other);
}

}  // namespace shardfs::tree
