#include "s3/credentials.h"

#include <fmt/format.h>

#include "base/log.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using base::fail;

class ChainSource final : public CredentialsSource {
 public:
  explicit ChainSource(std::vector<std::unique_ptr<CredentialsSource>> sources) : sources_(std::move(sources)) {}

  Loaded load(const StopSignal& stop) override {
    std::string said;
    Code code = Code::kPermission;
    bool failed = false;
    for (const auto& source : sources_) {
      auto loaded = source->load(stop);
      if (loaded && loaded->has_value()) return loaded;
      if (!loaded && loaded.error().code == Code::kCancelled) return loaded;
      said += fmt::format("{}{}: {}", said.empty() ? "" : "; ", source->name(),
                          loaded ? "has none" : loaded.error().message);
      if (loaded) continue;
      failed = true;
      if (loaded.error().code == Code::kTransient || loaded.error().code == Code::kTimeout) code = Code::kTransient;
      if (source == sources_.back()) continue;
      base::warn_once("credentials of " + source->name(), "s3: credentials: {}: {}; the next place is asked",
                      source->name(), loaded.error().message);
    }
    if (!failed) return std::optional<Credentials>();
    return fail(code, "no credentials: " + said);
  }

  std::string name() const override {
    std::string out;
    for (const auto& source : sources_) out += (out.empty() ? "" : ", ") + source->name();
    return out;
  }

 private:
  const std::vector<std::unique_ptr<CredentialsSource>> sources_;
};

}  // namespace

std::unique_ptr<CredentialsSource> chain_source(std::vector<std::unique_ptr<CredentialsSource>> sources) {
  return std::make_unique<ChainSource>(std::move(sources));
}

}  // namespace shardfs::s3
