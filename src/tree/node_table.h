// NodeTable: the inodes that the kernel knows, by nodeid and by path, with its lookup counts.
// Not what is known of names: that is Directory. A nodeid's version never changes, and no nodeid is used twice.
// Thread rule: confined to the tree's lock. Records stay in place until they are forgotten.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "store/object.h"
#include "tree/fact.h"
#include "tree/tree.h"

namespace shardfs::tree {

class NodeTable {
 public:
  struct Record {
    NodeId id = 0;
    uint64_t st_ino = 0;
    Kind kind = Kind::kFile;
    NodeId parent = 0;
    store::ObjectInfo info;  // key: prefix + path, for directories too (without a slash at the end)
    uint64_t lookups = 0;
    bool retired = false;  // no lookup finds it any more
  };

  NodeTable(std::string prefix, base::WallTime directory_time);
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  /// The node of this path and version, made if it is missing or retired; its count is raised by one.
  /// Requires: known.is_present().
  const Record& enter(NodeId parent, std::string_view path, const Known& known);
  /// Null for a nodeid that was forgotten.
  const Record* find(NodeId id) const;
  /// The youngest node of this path, whatever its version; null if there is none.
  const Record* youngest(std::string_view path) const;
  /// At or below a path, the root left out.
  std::vector<const Record*> below(std::string_view path) const;
  /// The root stays; a count above what was given means all of it.
  void forget(NodeId id, uint64_t count);
  /// The next enter of this path and version makes a new nodeid. Files only.
  void retire(NodeId id);

  std::string_view path_of(const Record& record) const;
  static bool is_version(const Record& record, const Known& known);
  size_t size() const { return by_id_.size(); }

 private:
  struct PathHash {
    using is_transparent = void;
    const NodeTable* table;
    size_t operator()(std::string_view path) const { return std::hash<std::string_view>()(path); }
    size_t operator()(const Record* record) const { return (*this)(table->path_of(*record)); }
  };
  struct SamePath {
    using is_transparent = void;
    const NodeTable* table;
    bool operator()(const Record* a, const Record* b) const { return table->path_of(*a) == table->path_of(*b); }
    bool operator()(std::string_view path, const Record* record) const { return path == table->path_of(*record); }
    bool operator()(const Record* record, std::string_view path) const { return path == table->path_of(*record); }
  };

  const std::string prefix_;
  const base::WallTime directory_time_;
  NodeId next_id_ = kRootNode + 1;
  std::unordered_map<NodeId, Record> by_id_;
  std::unordered_multiset<Record*, PathHash, SamePath> by_path_;
};

}  // namespace shardfs::tree
