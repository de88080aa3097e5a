#include "app/metrics_output.h"

#include <unistd.h>

#include <filesystem>

#include "base/log.h"
#include "base/replace_file.h"
#include "control/socket_path.h"

namespace shardfs::app {
namespace {

std::string file_for(const std::string& path, const std::string& mountpoint) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  // The name of the state file: one for each mountpoint.
  const auto name = std::filesystem::path(control::lock_path("", mountpoint)).stem().string();
  return (std::filesystem::path(path) / ("shardfs-" + name + ".prom")).string();
}

// Readable for everybody: node_exporter's collector has a user of its own. It reads only *.prom.
base::Result<void> write(const std::string& file, const std::string& text) {
  return base::replace_file(file, text, 0644);
}

}  // namespace

base::Result<std::unique_ptr<MetricsOutput>> MetricsOutput::start(const MountOptions& options,
                                                                  const std::string& mountpoint,
                                                                  std::function<control::ExportFacts()> facts,
                                                                  const base::Metrics& metrics) {
  const std::string file = options.metrics_file.empty() ? std::string() : file_for(options.metrics_file, mountpoint);
  std::unique_ptr<MetricsOutput> output(new MetricsOutput(file, facts, metrics));
  if (!file.empty()) {
    if (auto written = write(file, control::prometheus_text(facts(), metrics)); !written)
      return tl::unexpected(std::move(written.error()));
  }
  if (!options.metrics_listen.empty()) {
    auto listener = control::MetricsListener::listen(options.metrics_listen, std::move(facts), metrics);
    if (!listener) return tl::unexpected(std::move(listener.error()));
    output->listener_ = std::move(*listener);
  }
  return output;
}

MetricsOutput::~MetricsOutput() {
  listener_.reset();
  if (!file_.empty()) ::unlink(file_.c_str());
}

void MetricsOutput::write_file_if_due() {
  if (file_.empty() || ++seconds_ % kSecondsBetween != 0) return;
  const auto written = write(file_, control::prometheus_text(facts_(), metrics_));
  if (!written) base::warn_once("metrics file", "metrics: {}", written.error().message);
}

}  // namespace shardfs::app
