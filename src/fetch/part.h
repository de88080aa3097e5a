// Part: one GET under way. It copies what arrives into the file's block buffers and tells the file.
// Thread rule: the store calls it from one thread at a time; fields other than `range` and `cause` belong to the
// file's lock unless said otherwise. Owns a share of the buffers and of the file.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/byte_range.h"
#include "cache/cache.h"
#include "fetch/cause.h"
#include "store/object_store.h"

namespace shardfs::fetch {

class SourceFileImpl;

class Part final : public store::BodySink {
 public:
  Part(std::shared_ptr<SourceFileImpl> file, base::ByteRange range, Cause cause)
      : file(std::move(file)), range(range), cause(cause), urgency(cause), progress(range.begin) {}

  void on_start(const store::ObjectInfo&) override {}
  bool on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) override;

  const std::shared_ptr<SourceFileImpl> file;
  base::ByteRange range;                               // constant once the request has started
  const Cause cause;                                   // why it was started: what it is counted by
  std::vector<std::shared_ptr<base::Buffer>> buffers;  // one a block of the range; constant once started
  std::shared_ptr<cache::CacheFile> target;            // where full blocks are saved; may be null
  std::vector<bool> granted;                           // the right to fill that block of target is held by this part
  Cause urgency;                                       // by now: a reader may have opened the file since
  bool unwanted = false;                               // to be cancelled, also if the request is not there yet
  uint64_t progress;                                   // arrived up to here
  store::RequestHandle request;
};

}  // namespace shardfs::fetch
