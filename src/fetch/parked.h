// Parked: one read that is waiting, or being answered.
// Thread rule: `waiting` and the list it is in belong to the file's lock; the rest is constant once parked.
#pragma once

#include "fetch/source_file.h"

namespace shardfs::fetch {

struct SourceFileImpl::Parked final : ParkedRead {
  Parked(std::weak_ptr<SourceFileImpl> file, base::ByteRange range, ReadDone done)
      : file(std::move(file)), range(range), done(std::move(done)) {}
  void cancel() override {
    const auto owner = file.lock();
    if (!owner) return;
    ParkedPtr self;
    {
      std::lock_guard lock(owner->mutex_);
      self = owner->unpark(this);
    }
    if (self) owner->end_read(self, {base::Code::kCancelled, "read of " + owner->info().key + " was cancelled"});
  }

  const std::weak_ptr<SourceFileImpl> file;
  const base::ByteRange range;
  const ReadDone done;
  base::SteadyTime since{};  // when it was first parked
  base::SteadyTime deadline{};
  bool parked_once = false;
  unsigned refetches = 0;  // times that the cache failed it
};

}  // namespace shardfs::fetch
