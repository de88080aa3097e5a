#include "base/heap.h"

#include <malloc.h>

namespace shardfs::base {

void trim_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace shardfs::base
