#include "readahead/shard_order.h"

namespace shardfs::readahead {

std::string_view name_of(ShardOrder::Source source) {
  switch (source) {
    case ShardOrder::Source::kNumbered: return "numbered";
    case ShardOrder::Source::kStride: return "stride";
    case ShardOrder::Source::kLastEpoch: return "last epoch";
    case ShardOrder::Source::kHint: return "hint";
  }
  return "numbered";
}

void ShardOrder::set_names(std::vector<std::string>) {}
std::vector<ShardOrder::Guess> ShardOrder::on_open(std::string_view, uint32_t, size_t) { return {}; }
void ShardOrder::on_close(std::string_view) {}
size_t ShardOrder::readers() const { return 0; }
size_t ShardOrder::hint(std::vector<std::string>, bool) { return 0; }
std::vector<ShardOrder::Guess> ShardOrder::hinted(size_t) { return {}; }

}  // namespace shardfs::readahead
