#include "s3/s3_store.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <mutex>

#include "s3/core.h"
#include "s3/operations.h"

namespace shardfs::s3 {
namespace {

base::Result<void> set_up_curl() {
  static std::once_flag once;
  static CURLcode result = CURLE_FAILED_INIT;
  std::call_once(once, [] { result = curl_global_init(CURL_GLOBAL_ALL); });
  if (result == CURLE_OK) return {};
  return base::fail(base::Code::kNoMemory, fmt::format("libcurl: {}", curl_easy_strerror(result)));
}

class S3Store final : public store::ObjectStore {
 public:
  explicit S3Store(std::unique_ptr<Core> core)
      : core_(std::move(core)), endpoint_(core_->target()->endpoint.text()), bucket_(core_->options().bucket) {}

  ~S3Store() override {
    core_->stopping = true;
    for (const auto& lane : core_->transport().lanes()) {
      lane->loop->post([lane = lane.get()] {
        // Each one leaves `running` as it ends; its callback may start others, which end at once.
        while (!lane->running.empty()) (*lane->running.begin())->abandon();
      });
    }
    while (const uint64_t left = core_->in_flight.load()) core_->in_flight.wait(left);
  }

  store::RequestHandle head(store::HeadOptions options,
                            std::function<void(base::Result<store::ObjectInfo>)> done) override {
    return launch(std::make_shared<HeadOperation>(*core_, std::move(options), std::move(done)));
  }
  store::RequestHandle list(store::ListOptions options,
                            std::function<void(base::Result<store::ListPage>)> done) override {
    return launch(std::make_shared<ListOperation>(*core_, std::move(options), std::move(done)));
  }
  store::RequestHandle get(store::GetOptions options, std::shared_ptr<store::BodySink> sink,
                           std::function<void(base::Result<void>)> done) override {
    return launch(std::make_shared<GetOperation>(*core_, std::move(options), std::move(sink), std::move(done)));
  }
  unsigned connection_limit() const override { return core_->transport().admission().limit(); }
  std::string endpoint() const override { return endpoint_; }
  std::string bucket() const override { return bucket_; }

 private:
  static store::RequestHandle launch(std::shared_ptr<Operation> operation) {
    operation->launch();
    return operation;
  }

  const std::unique_ptr<Core> core_;
  const std::string endpoint_;  // as at the start: the cache's key must not move when the region does
  const std::string bucket_;
};

}  // namespace

base::Result<std::unique_ptr<store::ObjectStore>> make_s3_store(S3Options options, base::Clock& clock,
                                                                base::Metrics& metrics) {
  if (auto ready = set_up_curl(); !ready) return tl::unexpected(ready.error());
  auto settings = resolve_settings(std::move(options), process_environment());
  if (!settings) return tl::unexpected(settings.error());
  auto transport = Transport::make(*settings, clock, metrics);
  if (!transport) return tl::unexpected(transport.error());
  return std::make_unique<S3Store>(std::make_unique<Core>(std::move(*settings), clock, metrics, std::move(*transport)));
}

}  // namespace shardfs::s3
