#include "cache/checker.h"

#include <charconv>

#include "cache/file.h"
#include "cache/file_table.h"
#include "cache/map_file.h"

namespace shardfs::cache {

// A place is "NAMESPACE/HASH" (checked) or "NAMESPACE/HASH:N" (its block N is the next one).
Checker::Checker(std::shared_ptr<Core> core, const std::string& after) : core_(std::move(core)), reader_(core_->disk) {
  const size_t colon = after.find(':');
  const auto key = parse_key(after.substr(0, colon));
  if (!key) return;
  after_ = *key;
  if (colon == std::string::npos) return;
  std::from_chars(after.data() + colon + 1, after.data() + after.size(), block_);
  const auto row = core_->index->row(*key);
  if (row && *row) file_ = **row;
}

std::string Checker::place() const {
  if (at_end_) return {};
  if (file_) return to_string(file_->key) + ":" + std::to_string(block_);
  return after_.name_space.empty() ? std::string() : to_string(after_);
}

base::Result<bool> Checker::step(Holdings::Check& progress) {
  for (;;) {
    if (!file_) {
      const auto rows = core_->index->rows_after(after_, 1);
      if (!rows) return tl::unexpected(rows.error());
      at_end_ = rows->empty();
      if (at_end_) return false;
      file_ = rows->front();
      block_ = 0;
      ++progress.files;
    }
    const auto file = core_->files->get(core_, file_->key, file_->id, file_->size_bytes, FileTable::Wish::kOnlyLook);
    while (file && block_ < file->block_count()) {
      const uint32_t block = block_++;
      const auto checked = file->check_block(block, reader_);
      if (checked == File::Checked::kAbsent) continue;
      ++progress.blocks;
      const uint64_t bytes = range_of_block(file_->size_bytes, block).size();
      progress.bytes += bytes;
      core_->checked_bytes.add(bytes);
      if (checked == File::Checked::kBad) progress.bad.push_back({to_string(file_->key), file_->id, block});
      return true;
    }
    after_ = file_->key;
    file_.reset();
  }
}

}  // namespace shardfs::cache
