// MountedSystem: one mount with everything that serves it: the wiring of all rooms, in the order in which they start
// and end. Not how it became a process: that is daemon.h. Thread rule: confined to the main thread; its parts have
// threads of their own, so it is made after the last fork. Owns every part. They start from the top of the class to its
// bottom and end the other way round.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "app/cache_handler.h"
#include "app/daemon.h"
#include "app/hint_handler.h"
#include "app/metrics_output.h"
#include "app/mount_plan.h"
#include "app/path_lookup.h"
#include "app/warmer.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "cache/cache.h"
#include "control/mount_lock.h"
#include "control/sampler.h"
#include "control/server.h"
#include "fetch/fetcher.h"
#include "fs/file_system.h"
#include "fuse/session.h"
#include "store/object_store.h"
#include "tree/tree.h"

namespace shardfs::app {

class MountedSystem {
 public:
  /// Returns when the mount answers. The store is asked before anything is mounted, for some seconds at most.
  /// Errors: those of all rooms, with a message for the person who mounts.
  static base::Result<std::unique_ptr<MountedSystem>> start(const MountPlan& plan);
  /// Unmounts if it is still mounted, answers what is parked, ends all threads.
  ~MountedSystem();
  MountedSystem(const MountedSystem&) = delete;
  MountedSystem& operator=(const MountedSystem&) = delete;

  /// Blocks until somebody unmounts it or a signal (SIGTERM, SIGINT) asks for the end.
  void wait();

 private:
  explicit MountedSystem(const MountPlan& plan);

  base::Result<void> start_all();
  base::Result<void> take_mountpoint();
  base::Result<void> open_cache();
  base::Result<void> reach_store();
  base::Result<void> use_manifest();
  base::Result<void> mount();
  base::Result<void> probe_passthrough();
  base::Result<void> listen();
  std::string stats();
  HintHandler hint_handler();
  void refresh_cache_gauges();
  control::ExportFacts export_facts();
  void make_cache_handlers();
  base::Result<std::string> refresh(const std::string& arguments);
  void sample();
  void stop_sampling();
  void reload();
  void warn_of_what_is_left() const;

  const MountPlan plan_;
  const base::SteadyTime started_;
  std::string runtime_folder_;
  std::optional<control::MountLock> lock_;
  bool state_written_ = false;
  base::SystemClock clock_;
  base::SystemDisk disk_;
  base::Metrics metrics_;
  std::unique_ptr<base::Timer> timer_;
  std::unique_ptr<base::ThreadPool> disk_pool_;
  std::unique_ptr<cache::Cache> cache_;  // null: none
  std::unique_ptr<store::ObjectStore> store_;
  std::unique_ptr<tree::Tree> tree_;
  std::unique_ptr<fetch::Fetcher> fetcher_;
  std::unique_ptr<fuse::Session> session_;
  std::unique_ptr<fs::FileSystem> file_system_;
  std::unique_ptr<control::ThroughputSampler> sampler_;
  std::unique_ptr<MetricsOutput> metrics_output_;
  std::mutex sample_mutex_;
  bool ending_ = false;  // guarded by sample_mutex_
  std::unique_ptr<PathLookup> path_lookup_;
  std::unique_ptr<CacheHandler> cache_handler_;  // null: no cache
  std::unique_ptr<Warmer> warmer_;               // null: no cache
  std::unique_ptr<control::Server> server_;
};

/// The whole life of a mount in this process: start, report, wait, end. The exit code.
int run_mount(const MountPlan& plan, StartReport& report);

}  // namespace shardfs::app
