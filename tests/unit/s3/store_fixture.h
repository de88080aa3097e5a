// What the tests of the whole store share: a store on a scripted server, a sink that keeps what it gets, and calls that
// wait for their end.
// Thread rule: thread-compatible, but for the sink, which the store's threads fill.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "s3/s3_store.h"
#include "scripted_server.h"

namespace shardfs::s3::test {

class KeepingSink final : public store::BodySink {
 public:
  void on_start(const store::ObjectInfo& info) override;
  bool on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) override;

  std::string bytes() const;
  std::optional<store::ObjectInfo> info() const;
  /// on_start came once, and each piece began where the one before had ended.
  bool in_order() const;
  /// Blocks until that many bytes have come.
  void wait_for_bytes(size_t count) const;
  /// on_bytes answers false once it has that many.
  void stop_after(size_t count) { stop_after_ = count; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable change_;
  std::string bytes_;
  std::optional<store::ObjectInfo> info_;
  std::optional<uint64_t> first_;
  size_t starts_ = 0;
  bool in_order_ = true;
  std::atomic<size_t> stop_after_{SIZE_MAX};
};

struct StoreFixture {
  explicit StoreFixture(ScriptedServer::Script script, S3Options options = {});

  /// "ok", or the name of the error's code.
  std::string run(store::GetOptions get_options);
  std::string get(base::ByteRange range, std::optional<store::ObjectInfo> expect = {});
  base::Result<store::ObjectInfo> head(const std::string& key);
  base::Result<store::ListPage> list(store::ListOptions list_options);

  uint64_t counter(const char* name, const char* label = "") { return metrics.counter(name, label).value(); }
  int64_t gauge(const char* name) { return metrics.gauge(name).value(); }

  ScriptedServer server;
  base::SystemClock clock;
  base::Metrics metrics;
  std::shared_ptr<KeepingSink> sink;  // of the last get
  std::string message;                // of the last error
  std::unique_ptr<store::ObjectStore> store;
};

/// Without signing, and with a deadline that a broken test reaches soon.
store::GetOptions get_options(base::ByteRange range, std::optional<store::ObjectInfo> expect = {});
store::ObjectInfo object(uint64_t size_bytes, const std::string& etag = "\"v1\"");
std::string code_of(const base::Result<void>& result);

}  // namespace shardfs::s3::test
