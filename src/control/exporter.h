// Exporter: a mount's registry in Prometheus's terms, as text and on a port.
// Not where anything is measured, and not the whole registry: exported_metrics() is the promise (docs/metrics.md), the
// rest may change from version to version.
// Thread rule: functions are pure over thread-safe inputs; MetricsListener is confined to one thread and answers on two
// threads of its own, which call `refresh`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"

namespace shardfs::control {

/// What every sample is labelled with.
struct ExportLabels {
  std::string mountpoint;
  std::string source;
  std::map<std::string, std::string> more;  // given by the user: "slurm_job" -> "7"
};

struct ExportFacts {
  ExportLabels labels;
  std::string version;
  double uptime_s = 0;
  bool passthrough = false;
};

/// "slurm_job=7,user=ada". Errors: kInvalid: not a name of a label, or one that is taken.
base::Result<std::map<std::string, std::string>> parse_labels(const std::string& text);

/// The names, with their prefix.
std::vector<std::string> exported_metrics();

std::string prometheus_text(const ExportFacts& facts, const base::Metrics& metrics);

class MetricsListener {
 public:
  virtual ~MetricsListener() = default;
  /// address: "9400" (127.0.0.1), "10.0.0.5:9400", "0.0.0.0:9400". refresh: brings the registry's gauges up to date.
  /// metrics outlives it. Errors: kInvalid, kIo (the port is taken).
  static base::Result<std::unique_ptr<MetricsListener>> listen(const std::string& address,
                                                               std::function<ExportFacts()> refresh,
                                                               const base::Metrics& metrics);
};

}  // namespace shardfs::control
