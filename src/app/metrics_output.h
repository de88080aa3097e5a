// MetricsOutput: where a mount's metrics go by themselves: to a port, to a file, or nowhere.
// Not their names: control/exporter.h.
// Thread rule: confined to one thread; write_file may be called on another one at a time. Owns the listener, and the
// file, which goes at the end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/options.h"
#include "base/metrics.h"
#include "control/exporter.h"

namespace shardfs::app {

class MetricsOutput {
 public:
  /// facts: brings the gauges up to date; called on other threads. Both outlive it. Errors: kInvalid, kIo.
  static base::Result<std::unique_ptr<MetricsOutput>> start(const MountOptions& options, const std::string& mountpoint,
                                                            std::function<control::ExportFacts()> facts,
                                                            const base::Metrics& metrics);
  ~MetricsOutput();
  MetricsOutput(const MetricsOutput&) = delete;
  MetricsOutput& operator=(const MetricsOutput&) = delete;

  /// Call it once a second, on a thread that may wait for the disk. A file that can't be written costs one warning.
  void write_file_if_due();

 private:
  MetricsOutput(std::string file, std::function<control::ExportFacts()> facts, const base::Metrics& metrics)
      : file_(std::move(file)), facts_(std::move(facts)), metrics_(metrics) {}
  // Source: node_exporter is scraped once or four times a minute.
  static constexpr int kSecondsBetween = 15;

  const std::string file_;  // empty: none
  const std::function<control::ExportFacts()> facts_;
  const base::Metrics& metrics_;
  int seconds_ = 0;
  std::unique_ptr<control::MetricsListener> listener_;
};

}  // namespace shardfs::app
