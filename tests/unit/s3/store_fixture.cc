#include "store_fixture.h"

#include <doctest/doctest.h>

namespace shardfs::s3::test {
namespace {

S3Options complete(S3Options options, const ScriptedServer& server) {
  if (options.bucket.empty()) options.bucket = "bucket";
  if (options.endpoint_url.empty()) options.endpoint_url = server.url();
  if (options.profile.empty()) options.no_sign_request = true;
  return options;
}

template <class T>
base::Result<T> wait(std::future<base::Result<T>> future) {
  return future.get();
}

}  // namespace

void KeepingSink::on_start(const store::ObjectInfo& info) {
  const std::lock_guard lock(mutex_);
  ++starts_;
  info_ = info;
}

bool KeepingSink::on_bytes(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = offset_bytes;
    if (starts_ != 1 || offset_bytes != *first_ + bytes_.size()) in_order_ = false;
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (bytes_.size() >= stop_after_) return false;
  }
  change_.notify_all();
  return true;
}

std::string KeepingSink::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::optional<store::ObjectInfo> KeepingSink::info() const {
  const std::lock_guard lock(mutex_);
  return info_;
}

bool KeepingSink::in_order() const {
  const std::lock_guard lock(mutex_);
  return in_order_;
}

void KeepingSink::wait_for_bytes(size_t count) const {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [&] { return bytes_.size() >= count; });
}

StoreFixture::StoreFixture(ScriptedServer::Script script, S3Options options) : server(std::move(script)) {
  auto made = make_s3_store(complete(std::move(options), server), clock, metrics);
  if (!made) FAIL(made.error().message);
  store = std::move(*made);
}

std::string code_of(const base::Result<void>& result) {
  return result ? "ok" : std::string(base::name_of(result.error().code));
}

std::string StoreFixture::run(store::GetOptions options) {
  sink = std::make_shared<KeepingSink>();
  std::promise<base::Result<void>> promise;
  const auto handle =
      store->get(std::move(options), sink, [&](base::Result<void> result) { promise.set_value(std::move(result)); });
  const auto result = wait(promise.get_future());
  message = result ? "" : result.error().message;
  return code_of(result);
}

std::string StoreFixture::get(base::ByteRange range, std::optional<store::ObjectInfo> expect) {
  return run(get_options(range, std::move(expect)));
}

base::Result<store::ObjectInfo> StoreFixture::head(const std::string& key) {
  store::HeadOptions options;
  options.key = key;
  options.deadline = std::chrono::seconds(20);
  std::promise<base::Result<store::ObjectInfo>> promise;
  store->head(options, [&](base::Result<store::ObjectInfo> result) { promise.set_value(std::move(result)); });
  return wait(promise.get_future());
}

base::Result<store::ListPage> StoreFixture::list(store::ListOptions options) {
  options.deadline = std::chrono::seconds(20);
  std::promise<base::Result<store::ListPage>> promise;
  store->list(std::move(options), [&](base::Result<store::ListPage> result) { promise.set_value(std::move(result)); });
  return wait(promise.get_future());
}

store::GetOptions get_options(base::ByteRange range, std::optional<store::ObjectInfo> expect) {
  store::GetOptions out;
  out.key = "dir/key";
  out.range = range;
  out.expect = std::move(expect);
  out.deadline = std::chrono::seconds(20);
  return out;
}

store::ObjectInfo object(uint64_t size_bytes, const std::string& etag) {
  store::ObjectInfo out;
  out.key = "dir/key";
  out.size_bytes = size_bytes;
  out.etag = etag;
  return out;
}

}  // namespace shardfs::s3::test
