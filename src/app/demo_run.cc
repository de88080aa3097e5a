#include "app/demo_run.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/child_process.h"
#include "app/command.h"
#include "app/demo_shards.h"
#include "app/demo_steps.h"
#include "app/message.h"
#include "base/units.h"
#include "shardfs/control_client.h"
#include "teststore/teststore.h"

namespace shardfs::app {
namespace {

using base::Code;
using base::fail;
using base::Result;

constexpr unsigned kSteps = 6;
constexpr uint64_t kSampleBytes = 107374;  // Source: 5,000 in 512 MiB; a JPEG of ImageNet is 110 KB on average
constexpr const char* kBucket = "demo";
constexpr const char* kPrefix = "train";
constexpr int kPackageMissing = 3;  // exit code of the Python programs

std::string variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// "progress 0.41 2050 samples", a line of the Python programs, as "41 % 2050 samples".
std::string shown(const std::string& line) {
  const size_t from = std::string_view("progress ").size();
  const double fraction = std::atof(line.c_str() + from);
  return fmt::format("{:.0f} %{}", 100 * fraction, line.substr(std::min(line.size(), line.find(' ', from))));
}

// The demo's mount sees the demo's store, whatever the caller's settings say.
std::vector<std::string> clean_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool proxy = name.ends_with("_proxy") || name.ends_with("_PROXY");
    const bool ours = name.starts_with("SHARDFS_") && name != "SHARDFS_RUNTIME_DIR";
    if (!name.starts_with("AWS_") && !proxy && !ours) result.push_back(text);
  }
  return result;
}

std::string scripts_folder() {
  const std::string given = variable("SHARDFS_DEMO_SCRIPTS");
  if (!given.empty()) return given;
  std::error_code error;
  if (std::filesystem::exists(SHARDFS_DEMO_SCRIPTS_SOURCE, error)) return SHARDFS_DEMO_SCRIPTS_SOURCE;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / "share/shardfs/demo_loader").string();
}

// The demo's temporary folder, removed at the end.
class DemoFolder {
 public:
  static Result<std::unique_ptr<DemoFolder>> make(bool keep) {
    const std::string root = variable("TMPDIR");
    std::string name = (root.empty() ? std::string("/tmp") : root) + "/shardfs-demo-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return base::fail_errno(Code::kIo, "make a folder " + name, errno);
    std::unique_ptr<DemoFolder> folder(new DemoFolder(name, keep));
    for (const char* part : {"data", "cache", "mnt"}) {
      std::error_code error;
      std::filesystem::create_directory(folder->path(part), error);
      if (error) return base::fail_errno(Code::kIo, "make " + folder->path(part), error.value());
    }
    return folder;
  }
  ~DemoFolder() {
    std::error_code ignored;
    if (keep_) {
      print_note("kept " + root_);
    } else {
      std::filesystem::remove_all(root_, ignored);
    }
  }
  std::string path(const std::string& part) const { return root_ + "/" + part; }

 private:
  DemoFolder(std::string root, bool keep) : root_(std::move(root)), keep_(keep) {}
  std::string root_;
  bool keep_;
};

class Demo {
 public:
  Demo(const DemoOptions& options, const DemoFolder& folder, const Interrupt& interrupt, DemoSteps& steps)
      : options_(options), folder_(folder), interrupt_(interrupt), steps_(steps) {
    samples_ = options.samples > 0
                   ? options.samples
                   : static_cast<unsigned>(std::max<uint64_t>(options.shards, options.size_bytes / kSampleBytes));
    python_ = variable("SHARDFS_DEMO_PYTHON");
    if (python_.empty()) python_ = "python3";
    scripts_ = scripts_folder();
    result_.size_bytes = options.size_bytes;
    result_.shards = options.shards;
  }
  ~Demo() { unmount(); }

  Result<DemoResult> run() {
    Result<void> done = make_data();
    if (done) done = start_store();
    if (done) done = mount();
    if (done) done = epoch("first epoch, cold", folder_.path("mnt"), result_.cold);
    if (done) done = epoch("second epoch, warm", folder_.path("mnt"), result_.warm);
    // Twice: the first pass brings it to where the warm epoch's data is, too.
    if (done) done = epoch("the same from a local copy, once", folder_.path("data"), result_.local);
    if (done) done = epoch("the same from a local copy, again", folder_.path("data"), result_.local);
    steps_.abandon();
    if (!done) return tl::unexpected(std::move(done.error()));
    return result_;
  }

 private:
  Result<void> make_data() {
    steps_.begin(fmt::format("make {} in {} shards", base::format_bytes(options_.size_bytes), options_.shards));
    auto with_python = make_data_with_python();
    if (!with_python) return tl::unexpected(std::move(with_python.error()));
    if (!*with_python) {
      auto made = make_shards(
          folder_.path("data"), options_.shards, samples_, options_.size_bytes,
          [this](double fraction) { steps_.tick(fmt::format("{:.0f} %", 100 * fraction)); }, interrupt_.flag());
      if (!made) return made;
    }
    steps_.end();
    if (!built_in_reason_.empty()) print_note("reading without a data loader: " + built_in_reason_);
    return {};
  }

  // False: no Python for it; built_in_reason_ says why.
  Result<bool> make_data_with_python() {
    const std::string script = scripts_ + "/make_dataset.py";
    const auto without = [this](std::string reason) -> Result<bool> {
      built_in_reason_ = std::move(reason);
      result_.reader = "built-in: " + built_in_reason_;
      return false;
    };
    std::error_code ignored;
    if (!std::filesystem::exists(script, ignored)) return without("there is no " + script);
    std::string last_line;
    const auto code = run({python_, script, "--out", folder_.path("data"), "--shards", std::to_string(options_.shards),
                           "--samples", std::to_string(samples_), "--bytes", std::to_string(options_.size_bytes)},
                          clean_environment(), true, [&](const std::string& line) {
                            if (line.starts_with("progress ")) {
                              steps_.tick(shown(line));
                            } else if (!line.empty()) {
                              last_line = line;
                            }
                          });
    if (!code && code.error().code == Code::kNotFound) return without("there is no " + python_);
    if (!code) return tl::unexpected(code.error());
    if (*code == kPackageMissing) return without(last_line.empty() ? "a Python package is missing" : last_line);
    if (*code != 0) return fail(Code::kIo, fmt::format("{} failed ({}): {}", script, *code, last_line));
    result_.reader = "webdataset";
    return true;
  }

  Result<void> start_store() {
    teststore::Options store;
    // Source: the shape of the project's measurements: a store in the same region.
    store.shape.first_byte_delay = std::chrono::milliseconds(30);
    store.shape.list_delay = std::chrono::milliseconds(50);
    store.shape.connection_bytes_per_s = 90'000'000;
    store_ = std::make_unique<teststore::Server>(store);
    if (auto started = store_->start(); !started) return started;
    store_->make_bucket(kBucket);
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("data"), error)) {
      auto put = store_->put_file(kBucket, fmt::format("{}/{}", kPrefix, entry.path().filename().string()),
                                  entry.path().string());
      if (!put) return tl::unexpected(std::move(put.error()));
    }
    return {};
  }

  Result<void> mount() {
    steps_.begin(fmt::format("mount s3://{}/{} from {}", kBucket, kPrefix, store_->endpoint()));
    const teststore::Options keys;
    auto environment = clean_environment();
    environment.push_back("AWS_ACCESS_KEY_ID=" + keys.access_key);
    environment.push_back("AWS_SECRET_ACCESS_KEY=" + keys.secret_key);
    environment.push_back("AWS_CONFIG_FILE=/dev/null");
    environment.push_back("AWS_SHARED_CREDENTIALS_FILE=/dev/null");
    std::string said;
    const auto code =
        run({"/proc/self/exe",
             "mount",
             fmt::format("s3://{}/{}", kBucket, kPrefix),
             folder_.path("mnt"),
             "--config",
             "/dev/null",
             "--endpoint-url",
             store_->endpoint(),
             "--region",
             keys.region,
             "--path-style",
             "--cache-dir",
             folder_.path("cache"),
             "--cache-size",
             std::to_string(2 * options_.size_bytes + (64 << 20)),
             "--cache-min-free",
             "0",
             "--passthrough",
             options_.passthrough,
             "--allow-other=false"},
            environment, true, [&](const std::string& line) { said += (said.empty() ? "" : "; ") + line; });
    if (!code) return tl::unexpected(code.error());
    if (*code != 0)
      return fail(Code::kIo, said.empty() ? fmt::format("the mount failed ({})", *code) : strip_name(said));
    mounted_ = true;
    steps_.end();
    if (!said.empty()) print_note(strip_name(said));
    note_passthrough();
    return {};
  }

  static std::string strip_name(const std::string& line) {
    constexpr std::string_view kName = "shardfs: ";
    return line.starts_with(kName) ? line.substr(kName.size()) : line;
  }

  void note_passthrough() {
    auto client = ControlClient::connect(folder_.path("mnt"));
    const auto stats = client ? client->stats() : tl::unexpected(client.error());
    if (!stats) return;
    const auto json = nlohmann::json::parse(*stats, nullptr, false);
    if (!json.is_object()) return;
    result_.passthrough = json.value("passthrough", false);
    result_.passthrough_reason = json.value("passthrough_reason", std::string());
    if (!result_.passthrough) print_note("passthrough is off: " + result_.passthrough_reason);
  }

  Result<void> epoch(const std::string& name, const std::string& path, EpochResult& into) {
    steps_.begin(name);
    const auto before = store_->stats();
    auto result = built_in_reason_.empty() ? read_with_python(path) : read_shards(path, samples_, interrupt_.flag());
    if (!result) return tl::unexpected(std::move(result.error()));
    const auto after = store_->stats();
    into = *result;
    into.gets = after.of(teststore::Kind::kGet) - before.of(teststore::Kind::kGet);
    into.fetched_bytes = after.body_bytes - before.body_bytes;
    steps_.end();
    return {};
  }

  Result<EpochResult> read_with_python(const std::string& path) {
    const std::string script = scripts_ + "/read_epochs.py";
    const std::string out = folder_.path("epoch.json");
    std::string last_line;
    const auto code =
        run({python_, script, "--path", path, "--epochs", "1", "--workers", "2", "--batch-size", "64", "--out", out},
            clean_environment(), true, [&](const std::string& line) {
              if (line.starts_with("progress ")) {
                steps_.tick(shown(line));
              } else if (!line.empty()) {
                last_line = line;
              }
            });
    if (!code) return tl::unexpected(code.error());
    if (*code != 0) return fail(Code::kIo, fmt::format("{} failed ({}): {}", script, *code, last_line));
    std::ifstream file(out, std::ios::binary);
    return parse_epoch({std::istreambuf_iterator<char>(file), {}}, out);
  }

  Result<int> run(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                  bool with_errors, const std::function<void(const std::string&)>& on_line) {
    auto child = ChildProcess::start(command, environment, with_errors);
    if (!child) return tl::unexpected(std::move(child.error()));
    return child->wait(interrupt_.descriptor(), on_line, [this] { steps_.tick(); });
  }

  void unmount() {
    // Also after a mount that was interrupted: it may have come up since.
    if (!store_) return;
    auto child = ChildProcess::start({"/proc/self/exe", "umount", "--lazy", "--timeout", "20s", folder_.path("mnt")},
                                     clean_environment(), !mounted_);
    if (child)
      child->wait(
          -1, [](const std::string&) {}, [] {});
  }

  const DemoOptions options_;
  const DemoFolder& folder_;
  const Interrupt& interrupt_;
  DemoSteps& steps_;
  unsigned samples_ = 0;
  std::string python_;
  std::string scripts_;
  std::string built_in_reason_;  // not empty: data and reading without Python
  std::unique_ptr<teststore::Server> store_;
  bool mounted_ = false;
  DemoResult result_;
};

}  // namespace

Result<DemoResult> run_demo(const DemoOptions& options) {
  const Interrupt interrupt;
  DemoSteps steps(kSteps);
  auto folder = DemoFolder::make(options.keep);
  if (!folder) return tl::unexpected(std::move(folder.error()));
  return Demo(options, **folder, interrupt, steps).run();
}

}  // namespace shardfs::app
