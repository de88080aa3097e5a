// The extended attributes user.shardfs.*: names and values.
// Thread rule: pure functions over thread-safe objects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fetch/fetcher.h"
#include "tree/tree.h"

namespace shardfs::fs {

/// False for most that the kernel asks for (security.*, system.*): answer ENODATA without a look at the node.
bool is_own_attribute(std::string_view name);
/// True if its value needs the object's SourceFile.
bool needs_source(std::string_view name);
/// source: null for an empty file, or where the value does not need it. Errors: kNoAttribute.
base::Result<std::string> attribute_value(std::string_view name, const tree::Node& node, fetch::SourceFile* source,
                                          const std::string& directory_key);
std::vector<std::string> attribute_names(const tree::Node& node);

}  // namespace shardfs::fs
