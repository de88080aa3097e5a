// CheckStore: the steps of `shardfs check` that ask the store: where it is, with which keys, what it can do, how fast.
// Thread rule: confined to one thread; each step blocks, with a limit of its own. Owns the stores that it makes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/check_report.h"
#include "app/url.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "s3/s3_store.h"

namespace shardfs::app {

class CheckStore {
 public:
  using Report = std::function<void(CheckRow)>;
  CheckStore(SourceUrl source, s3::S3Options options, Report report)
      : source_(std::move(source)), options_(std::move(options)), report_(std::move(report)) {}

  /// True if the prefix can be listed: a mount is worth trying.
  bool run();

 private:
  bool reach();
  bool find_keys();
  bool list();
  void read();
  void read_range(const store::ObjectInfo& object, const std::string& first);
  void try_if_match(const store::ObjectInfo& object);
  void measure(unsigned connections);
  void skip(std::initializer_list<const char*> names, const std::string& why);

  /// Bytes of [begin, end), at most a few MiB; first_byte: after how long the answer began.
  base::Result<std::string> get(store::ObjectStore& store, const store::ObjectInfo& object, base::ByteRange range,
                                std::chrono::milliseconds* first_byte = nullptr);

  const SourceUrl source_;
  const s3::S3Options options_;
  const Report report_;
  base::SystemClock clock_;
  base::Metrics metrics_;
  std::unique_ptr<store::ObjectStore> store_;
  std::vector<store::ObjectInfo> objects_;  // that can be read; of the first page
};

}  // namespace shardfs::app
