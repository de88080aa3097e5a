#include "fuse/interrupts.h"

#include "fuse/reply.h"

namespace shardfs::fuse {

uint64_t Interrupts::add(std::weak_ptr<Request> request) {
  std::lock_guard lock(mutex_);
  requests_.emplace(++last_, std::move(request));
  return last_;
}

void Interrupts::remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  requests_.erase(number);
}

std::shared_ptr<Request> Interrupts::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto place = requests_.find(number);
  return place == requests_.end() ? nullptr : place->second.lock();
}

}  // namespace shardfs::fuse
