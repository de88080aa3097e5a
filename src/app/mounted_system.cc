#include "app/mounted_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command.h"
#include "app/manifest.h"
#include "app/message.h"
#include "app/mount_path.h"
#include "app/mountpoint.h"
#include "app/service.h"
#include "app/start_failure.h"
#include "app/start_log.h"
#include "app/store_options.h"
#include "base/log.h"
#include "control/socket_path.h"
#include "control/stats.h"
#include "s3/s3_store.h"
#include "shardfs/version.h"
#include "store/manifest_store.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Source: somebody waits at a prompt, or a prolog does; a connection that is refused is tried for so long.
constexpr seconds kReachDeadline{5};
// A store that answers, though only with 503: it is busy (a hundred nodes mount at once), and worth more patience.
constexpr seconds kBusyDeadline{30};
// Fetched as soon as a lookup finds a file. Source: the kernel's first READ.
constexpr uint64_t kFirstBytes = 128 << 10;
// Source: a job has a few dozen shards open; the answer stays below some ten KiB.
constexpr size_t kFilesInStats = 64;
// Source: a daemon that was unmounted just now answers what is parked and closes its cache in less.
constexpr milliseconds kLastDaemonEnds{1000};
// Source: statfs(2), OVERLAYFS_SUPER_MAGIC.
constexpr long kOverlayfs = 0x794c7630;

std::atomic<fuse::Session*> session_to_end{nullptr};

extern "C" void end_session(int) {
  if (fuse::Session* const session = session_to_end) session->request_exit();
}

std::atomic<bool> reload_wanted{false};

extern "C" void want_reload(int) { reload_wanted = true; }

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

// Until a session is there a signal ends the process: nothing is mounted yet.
void handle_signals(fuse::Session* session) {
  session_to_end = session;
  for (const int number : {SIGTERM, SIGINT}) handle(number, session == nullptr ? SIG_IGN : end_session);
  // A terminal that was closed is no wish to reload.
  handle(SIGHUP, session == nullptr ? SIG_IGN : ::isatty(STDERR_FILENO) != 0 ? end_session : want_reload);
}

unsigned threads_for(unsigned least, unsigned most) {
  return std::clamp(std::thread::hardware_concurrency(), least, most);
}

bool store_has_answered(const base::Metrics& metrics) {
  const auto histograms = metrics.histograms();
  return std::any_of(histograms.begin(), histograms.end(), [](const auto& entry) {
    return entry.name == "store_first_byte_seconds" && entry.metric->count() > 0;
  });
}

// A descriptor of some file in the folder, for trying what the kernel allows.
base::UniqueFd any_file_in(const std::string& folder) {
  base::UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    file.reset(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.valid()) return file;
  }
  return {};
}

}  // namespace

MountedSystem::MountedSystem(const MountPlan& plan) : plan_(plan), started_(std::chrono::steady_clock::now()) {}

Result<std::unique_ptr<MountedSystem>> MountedSystem::start(const MountPlan& plan) {
  std::unique_ptr<MountedSystem> system(new MountedSystem(plan));
  if (auto started = system->start_all(); !started) return tl::unexpected(std::move(started.error()));
  return system;
}

Result<void> MountedSystem::start_all() {
  auto folder = control::runtime_folder();
  if (!folder) return tl::unexpected(std::move(folder.error()));
  runtime_folder_ = std::move(*folder);
  if (auto alone = take_mountpoint(); !alone) return alone;
  timer_ = std::make_unique<base::Timer>("timer");
  disk_pool_ = std::make_unique<base::ThreadPool>("disk", threads_for(2, 8));
  Result<void> done = open_cache();
  if (done) done = reach_store();
  if (done) done = mount();
  if (done) done = probe_passthrough();
  if (done) done = listen();
  return done;
}

Result<void> MountedSystem::take_mountpoint() {
  auto lock = control::MountLock::take(runtime_folder_, plan_.mountpoint, kLastDaemonEnds);
  const auto last = control::read_state(runtime_folder_, plan_.mountpoint);
  if (!lock && last && control::alive(*last) && !find_mount(plan_.mountpoint)) {
    base::log_info("the last mount on {} was detached; its daemon (process {}) lives on", plan_.mountpoint,
                   last->process_id);
    control::MountLock::take_away(runtime_folder_, plan_.mountpoint);
    control::remove_state(runtime_folder_, plan_.mountpoint);
    lock = control::MountLock::take(runtime_folder_, plan_.mountpoint, kLastDaemonEnds);
  }
  if (!lock) return tl::unexpected(std::move(lock.error()));
  lock_.emplace(std::move(*lock));
  // Somebody may have mounted between the command's look and the lock.
  std::vector<std::string> said_by_the_command;
  return prepare_mountpoint(plan_.mountpoint, said_by_the_command);
}

Result<void> MountedSystem::open_cache() {
  const MountOptions& options = plan_.options;
  if (options.cache_off()) return {};
  cache::CacheOptions wanted;
  wanted.folder = options.cache_folder;
  wanted.limit = options.cache_limit;
  wanted.min_free = options.cache_min_free;
  wanted.eviction = options.cache_eviction;
  wanted.set_prefix = plan_.source.prefix;
  wanted.share = options.cache_share;
  wanted.scrub = options.scrub;
  if (options.store_given_by_job) wanted.trust_namespace = fmt::format("uid-{}", options.uid);
  auto cache = cache::Cache::open(std::move(wanted), disk_, clock_, metrics_);
  if (!cache) {
    const int number = cache.error().sys_errno;
    auto explained = explain_cache(plan_, std::move(cache.error()));
    // Others fill disks, and that keeps no job from its data.
    if (number != ENOSPC && number != EDQUOT) return tl::unexpected(std::move(explained));
    base::log_warning("going on without a cache: {}", explained.message);
    return {};
  }
  cache_ = std::move(*cache);
  return {};
}

Result<void> MountedSystem::reach_store() {
  // From here on keys are in memory. It also takes the environment out of the sight of the user's other processes.
  if (!plan_.options.core_dumps) ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  auto store = s3::make_s3_store(store_options(plan_.source, plan_.options), clock_, metrics_);
  if (!store) return tl::unexpected(explain_settings(plan_, std::move(store.error())));
  store_ = std::move(*store);
  if (!plan_.options.manifest.empty()) {
    if (auto used = use_manifest(); !used) return used;
  }
  tree::TreeOptions wanted;
  wanted.prefix = plan_.source.prefix;
  wanted.metadata_ttl = plan_.options.manifest.empty() ? plan_.options.metadata_ttl : milliseconds::max();
  wanted.negative_ttl = plan_.options.negative_ttl;
  wanted.stale_if_error = plan_.options.stale_if_error;
  tree_ = tree::Tree::make(wanted, *store_, clock_, *timer_, metrics_);
  const auto busy_deadline = clock_.now() + kBusyDeadline;
  for (;;) {
    std::promise<Result<void>> answer;
    tree_->start(kReachDeadline, [&answer](Result<void> result) { answer.set_value(std::move(result)); });
    auto reached = answer.get_future().get();
    if (reached) return {};
    const bool may_pass = reached.error().code == Code::kTransient || reached.error().code == Code::kTimeout;
    if (!may_pass || !store_has_answered(metrics_) || clock_.now() >= busy_deadline) {
      return tl::unexpected(explain_store(plan_, store_->endpoint(), std::move(reached.error())));
    }
  }
}

// The names are those of the list from now on. One of its objects is asked for, so that a wrong bucket, key or endpoint
// shows at mount.
Result<void> MountedSystem::use_manifest() {
  auto objects = read_manifest(plan_.options.manifest, plan_.source.bucket);
  if (!objects) return tl::unexpected(std::move(objects.error()));
  const auto first = std::find_if(objects->begin(), objects->end(), [this](const store::ObjectInfo& object) {
    return object.key.starts_with(plan_.source.prefix);
  });
  if (first == objects->end()) {
    return fail(Code::kInvalid,
                fmt::format("the manifest {} has no object below {}", plan_.options.manifest, plan_.source.text()));
  }
  store::HeadOptions wanted;
  wanted.key = first->key;
  wanted.deadline = kReachDeadline;
  std::promise<Result<store::ObjectInfo>> answer;
  store_->head(std::move(wanted), [&answer](Result<store::ObjectInfo> info) { answer.set_value(std::move(info)); });
  const auto info = answer.get_future().get();
  if (!info && info.error().code != Code::kNotFound) {
    return tl::unexpected(explain_store(plan_, store_->endpoint(), info.error()));
  }
  if (!info || !store::same_version(*info, *first)) {
    base::log_warning("the manifest {} is old: {} {}", plan_.options.manifest, first->key,
                      info ? "has another version in the store" : "is not in the store");
  }
  store_ = store::make_manifest_store(std::move(*objects), std::move(store_), *disk_pool_);
  return {};
}

Result<void> MountedSystem::mount() {
  const MountOptions& options = plan_.options;
  fetch::FetchOptions fetching;
  fetching.memory_bytes = options.memory_limit_bytes;
  fetching.connections = options.connections;
  fetching.late_after = options.late_after;
  fetcher_ = fetch::Fetcher::make(fetching, {*store_, cache_.get(), *disk_pool_, *timer_, clock_, metrics_});

  // A name that is not known costs a HEAD: the first bytes are under way before the reader has opened it.
  tree_->on_file_found([this](const store::ObjectInfo& info) {
    fetcher_->open(info)->prefetch({0, kFirstBytes}, fetch::Cause::kDemand);
  });

  fuse::SessionOptions wanted;
  wanted.mountpoint = plan_.mountpoint;
  wanted.source = plan_.source.text();
  wanted.allow_other = options.allow_other;
  wanted.workers = options.fuse_threads > 0 ? options.fuse_threads : threads_for(2, 8);
  wanted.read_ahead_kb = options.read_ahead_kb;
  wanted.extended_attributes = options.extended_attributes;
  if (options.passthrough == Passthrough::kOff || !cache_) wanted.passthrough = fuse::PassthroughMode::kOff;
  if (cache_) {
    const auto space = disk_.space(options.cache_folder);
    wanted.stacked_backing = space && space->fs_type == kOverlayfs;
  }
  auto session = fuse::Session::mount(wanted, metrics_);
  if (!session) return tl::unexpected(explain_mount(plan_, std::move(session.error())));
  session_ = std::move(*session);
  handle_signals(session_.get());

  fs::FileSystemOptions shown;
  shown.uid = options.uid;
  shown.gid = options.gid;
  shown.file_mode = options.file_mode;
  shown.directory_mode = options.directory_mode;
  shown.key_prefix = plan_.source.prefix;
  shown.memory_bytes = options.memory_limit_bytes;
  file_system_ =
      fs::FileSystem::make(shown, *tree_, *fetcher_, cache_.get(), *disk_pool_, clock_, metrics_, session_->kernel());
  return session_->start(*file_system_);
}

Result<void> MountedSystem::probe_passthrough() {
  const MountOptions& options = plan_.options;
  if (cache_ && options.passthrough != Passthrough::kOff) {
    const base::UniqueFd file = any_file_in(options.cache_folder);
    if (file.valid()) session_->probe_passthrough(file.get());
  }
  if (options.passthrough == Passthrough::kOn && (!cache_ || !session_->passthrough_reason().empty())) {
    return fail(Code::kUnsupported, fmt::format("--passthrough on: not possible here: {}; use auto or off",
                                                cache_ ? session_->passthrough_reason() : "there is no cache"));
  }
  return {};
}

Result<void> MountedSystem::listen() {
  auto path = control::socket_path(runtime_folder_, plan_.mountpoint);
  if (!path) return tl::unexpected(std::move(path.error()));
  std::map<std::string, control::Handler> handlers;
  handlers["stats"] = [this](const std::string&) -> Result<std::string> { return stats(); };
  handlers["hint"] = [hints = hint_handler()](const std::string& arguments) { return hints.handle(arguments); };
  path_lookup_ = std::make_unique<PathLookup>(*tree_);
  if (cache_) make_cache_handlers();
  handlers["warm"] = [this](const std::string& arguments) -> Result<std::string> {
    if (!warmer_) return fail(Code::kUnsupported, "this mount has no cache");
    return warmer_->handle(arguments);
  };
  handlers.merge(cache_handler_ ? cache_handler_->handlers() : CacheHandler::refusals());
  handlers["refresh"] = [this](const std::string& arguments) { return refresh(arguments); };
  auto server = control::Server::listen(*path, std::move(handlers));
  if (!server) return tl::unexpected(std::move(server.error()));
  server_ = std::move(*server);
  sampler_ = std::make_unique<control::ThroughputSampler>(metrics_, clock_);
  auto metrics = MetricsOutput::start(
      plan_.options, plan_.mountpoint, [this] { return export_facts(); }, metrics_);
  if (!metrics) return tl::unexpected(std::move(metrics.error()));
  metrics_output_ = std::move(*metrics);
  timer_->schedule(seconds(1), [this] { sample(); });
  const int process = ::getpid();
  state_written_ = true;
  return control::write_state(runtime_folder_,
                              {process, control::process_start(process), plan_.mountpoint, plan_.source.text(), *path});
}

HintHandler MountedSystem::hint_handler() {
  const auto list = [this](const std::string& directory, std::function<void()> done) {
    tree_->list_unasked(directory, [done = std::move(done)](const auto&) { done(); });
  };
  const auto give = [this](const std::vector<std::string>& paths, bool append) {
    const fs::HintReply reply = file_system_->hint(paths, append);
    return HintResult{reply.accepted, reply.unknown};
  };
  return {plan_.mountpoint, list, give};
}

void MountedSystem::make_cache_handlers() {
  warmer_ = std::make_unique<Warmer>(Warmer::Environment{
      .cache = *cache_,
      .fetcher = *fetcher_,
      .lookup = *path_lookup_,
      .clock = clock_,
      .mountpoint = plan_.mountpoint,
      .endpoint = store_->endpoint(),
      .bucket = store_->bucket(),
  });
  cache_handler_ = std::make_unique<CacheHandler>(CacheHandler::Environment{
      .holdings = *cache_->holdings(),
      .lookup = path_lookup_.get(),
      .mountpoint = plan_.mountpoint,
      .endpoint = store_->endpoint(),
      .bucket = store_->bucket(),
      .release_idle = [this] { fetcher_->release_idle(); },
  });
}

Result<std::string> MountedSystem::refresh(const std::string& arguments) {
  const auto request = nlohmann::json::parse(arguments, nullptr, false);
  const auto path = request.is_object() ? request.find("path") : request.end();
  if (!request.is_object() || path == request.end() || !path->is_string()) {
    return fail(Code::kInvalid, "a refresh has no \"path\"");
  }
  const std::string below = path_below(plan_.mountpoint, path->get_ref<const std::string&>());
  if (below.empty() && path->get_ref<const std::string&>() != plan_.mountpoint) {
    return fail(Code::kInvalid, "the path is not in this mount");
  }
  const size_t names = file_system_->refresh(below);
  return nlohmann::json{{"names", names}}.dump();
}

void MountedSystem::sample() {
  std::lock_guard lock(sample_mutex_);
  if (ending_) return;
  sampler_->sample();
  disk_pool_->post([this] { metrics_output_->write_file_if_due(); });
  if (warmer_) warmer_->sweep();
  if (reload_wanted.exchange(false)) disk_pool_->post([this] { reload(); });
  timer_->schedule(seconds(1), [this] { sample(); });
}

// What a sample has begun ends here; no other one begins.
void MountedSystem::stop_sampling() {
  {
    std::lock_guard lock(sample_mutex_);
    ending_ = true;
  }
  if (disk_pool_) disk_pool_->drain();
  metrics_output_.reset();
}

void MountedSystem::reload() {
  notify_reloading();
  const auto options = plan_.read_options();
  const Result<void> done =
      options ? base::set_up_log(options->log_level, options->log_file) : tl::unexpected(options.error());
  if (done) {
    base::log_info("the log's level and file are read again; other settings hold from the next mount on");
  } else {
    base::log_warning("SIGHUP changes nothing: {}", done.error().message);
  }
  notify_service("READY=1");
}

void MountedSystem::refresh_cache_gauges() {
  if (!cache_) return;
  // Other mounts of the folder change it, too.
  const auto cache = cache_->stats();
  metrics_.gauge("cache_used_bytes").set(static_cast<int64_t>(cache.used_bytes));
  metrics_.gauge("cache_limit_bytes").set(static_cast<int64_t>(cache.limit_bytes));
}

control::ExportFacts MountedSystem::export_facts() {
  refresh_cache_gauges();
  control::ExportFacts facts;
  facts.labels = {plan_.mountpoint, plan_.source.text(), plan_.options.metrics_labels};
  facts.version = version();
  facts.uptime_s = std::chrono::duration<double>(clock_.now() - started_).count();
  facts.passthrough = session_->passthrough_reason().empty();
  return facts;
}

std::string MountedSystem::stats() {
  refresh_cache_gauges();
  control::MountFacts facts;
  facts.source = plan_.source.text();
  facts.mountpoint = plan_.mountpoint;
  facts.version = version();
  facts.uptime_s = std::chrono::duration<double>(clock_.now() - started_).count();
  facts.passthrough_reason = session_->passthrough_reason();
  facts.passthrough = facts.passthrough_reason.empty();
  if (!cache_) facts.passthrough_reason = "there is no cache";
  facts.process_id = ::getpid();
  facts.files = fetcher_->in_use(kFilesInStats);
  return control::stats_json(facts, metrics_);
}

void MountedSystem::wait() { session_->wait(); }

MountedSystem::~MountedSystem() {
  server_.reset();
  stop_sampling();
  if (warmer_) warmer_->stop();
  if (session_) session_->stop();
  handle_signals(nullptr);
  file_system_.reset();
  if (fetcher_) fetcher_->shut_down();
  session_.reset();
  tree_.reset();
  store_.reset();  // the last answers come in here, and may still find a file for the fetcher
  fetcher_.reset();
  disk_pool_.reset();
  cache_.reset();
  timer_.reset();  // its tasks use all of the above, and the sampler
  sampler_.reset();
  if (state_written_ && lock_->held()) control::remove_state(runtime_folder_, plan_.mountpoint);
  lock_.reset();
  warn_of_what_is_left();
}

// Each of these counts something that must have ended by now.
void MountedSystem::warn_of_what_is_left() const {
  constexpr std::string_view kZeroAtTheEnd[] = {
      "fetch_parked_reads", "fetch_parts",          "fetch_memory_bytes",       "fs_open_files",
      "fs_backing_ids",     "fs_parked_operations", "store_connections_active", "store_requests_waiting"};
  for (const auto& gauge : metrics_.gauges()) {
    if (gauge.metric->value() == 0) continue;
    if (std::find(std::begin(kZeroAtTheEnd), std::end(kZeroAtTheEnd), gauge.name) == std::end(kZeroAtTheEnd)) continue;
    base::log_warning("at the end {} is {}, not zero", gauge.name, gauge.metric->value());
  }
}

int run_mount(const MountPlan& plan, StartReport& report) {
  auto log = StartLog::begin(plan.options);
  if (!log) {
    print_error(log.error().message);
    return kExitFailed;
  }
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  if (plan.options.oom_score_adj) set_oom_score(*plan.options.oom_score_adj);
  warn_of_job_step();
  auto system = MountedSystem::start(plan);
  if (!system) {
    print_error(system.error().message);
    return kExitFailed;
  }
  log->release();
  base::log_info("{} is mounted on {}, shardfs {}", plan.source.text(), plan.mountpoint, version());
  if (!report.ready()) return kExitFailed;
  notify_service(fmt::format("READY=1\nMAINPID={}\nSTATUS={} on {}", ::getpid(), plan.source.text(), plan.mountpoint));
  (*system)->wait();
  notify_service("STOPPING=1");
  base::log_info("{} ends", plan.mountpoint);
  system->reset();
  return kExitOk;
}

}  // namespace shardfs::app
