// Core: what all connections of one server share.
// Thread rule: thread-safe; `options` does not change after the start.
#pragma once

#include <mutex>
#include <string>

#include "teststore/counters.h"
#include "teststore/faults.h"
#include "teststore/objects.h"
#include "teststore/signature.h"
#include "teststore/teststore.h"

namespace shardfs::teststore {

/// A value that several threads read and replace.
template <class T>
class Guarded {
 public:
  T get() const {
    std::lock_guard lock(mutex_);
    return value_;
  }
  template <class Change>
  void change(Change&& change) {
    std::lock_guard lock(mutex_);
    change(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

struct Core {
  Options options;
  Objects objects;
  Counters counters;
  Faults faults;
  Holds holds;
  Guarded<Shape> shape;
  Guarded<Credentials> credentials;
  Gate stop;  // opened once, by Server::stop
};

}  // namespace shardfs::teststore
