#include "fs/file_system.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "fs/attributes.h"
#include "fs/directories.h"
#include "fs/errno_table.h"
#include "fs/foresight.h"
#include "fs/handles.h"
#include "fs/meters.h"
#include "fs/name_expiry.h"
#include "fs/open_route.h"
#include "fs/parking.h"
#include "fs/xattr.h"

namespace shardfs::fs {
namespace {

using base::Code;

struct OpenFile {
  std::shared_ptr<OpenNode> node;
  Route route = Route::kDaemon;
  bool foreseen = false;  // its close is told
};

class RealFileSystem final : public FileSystem {
 public:
  RealFileSystem(const FileSystemOptions& options, tree::Tree& tree, fetch::Fetcher& fetcher, cache::Cache* cache,
                 base::Executor& executor, const base::Clock& clock, base::Metrics& metrics, Kernel& kernel)
      : options_(options),
        tree_(tree),
        fetcher_(fetcher),
        cache_(cache),
        meters_(metrics),
        parking_(std::make_shared<Parking>(clock, meters_)),
        expiry_(kernel),
        routes_(tree, fetcher, kernel, expiry_, meters_),
        directories_(tree, options_, meters_),
        foresight_(std::make_shared<Foresight>(options_.key_prefix, options_.memory_bytes, tree, fetcher, cache,
                                               executor, meters_)) {
    fetcher_.on_complete([this, parking = parking_](const store::ObjectInfo& info) {
      if (const Claim claim = parking->enter()) routes_.on_complete(info);
    });
    fetcher_.on_scan([this, parking = parking_](const store::ObjectInfo& info) {
      if (const Claim claim = parking->enter()) foresight_->on_scan(info);
    });
    fetcher_.on_changed([this, parking = parking_](const store::ObjectInfo& info) {
      if (const Claim claim = parking->enter()) routes_.on_changed(info);
    });
  }

  ~RealFileSystem() override {
    shut_down();
    for (const HandleId handle : files_.all()) release(handle);
    directories_.close_all();
  }

  Cancel lookup(NodeId parent, std::string_view name, std::function<void(Reply<EntryReply>)> done) override;
  void forget(NodeId node, uint64_t count) override;
  Cancel getattr(NodeId node, std::function<void(Reply<AttrReply>)> done) override;
  Cancel open(NodeId node, int flags, Caller caller, std::function<void(Reply<OpenReply>)> done) override;
  Cancel read(HandleId handle, uint64_t offset_bytes, size_t size_bytes, Caller caller,
              std::function<void(Reply<fetch::Pieces>)> done) override;
  void release(HandleId handle) override;
  Cancel opendir(NodeId node, std::function<void(Reply<OpenDirectoryReply>)> done) override;
  int readdir(HandleId handle, uint64_t offset, bool with_attributes,
              const std::function<bool(const DirectoryEntry&)>& emit) override;
  void releasedir(HandleId handle) override { directories_.close(handle); }
  Reply<struct statvfs> statfs() override;
  Reply<std::string> getxattr(NodeId node, std::string_view name) override;
  Reply<std::vector<std::string>> listxattr(NodeId node) override;
  HintReply hint(std::span<const std::string> paths, bool append) override { return foresight_->hint(paths, append); }
  size_t refresh(std::string_view path) override {
    const auto names = tree_.refresh(path);
    for (const auto& [directory, name] : names) expiry_.expire(directory, name);
    return names.size();
  }
  void shut_down() override {
    parking_->shut_down();
    foresight_->close();
  }

 private:
  /// At the end of the mount "cancelled" is nobody's signal.
  int errno_of(const base::Error& error) const {
    return error.code == Code::kCancelled && parking_->closed() ? EIO : to_errno(error);
  }
  template <class T>
  Reply<T> failed(int error) {
    meters_.count_error(error);
    return {error, {}};
  }
  /// Parks what was not answered within its call.
  template <class T>
  Cancel park(const std::shared_ptr<Operation<T>>& operation) {
    return parking_->park(operation) ? cancel_of(operation) : Cancel();
  }
  void opened(const OpenRoutes::Outcome& outcome, uint32_t process, Operation<OpenReply>& operation);
  std::string directory_key(tree::Node node) const;

  const FileSystemOptions options_;
  tree::Tree& tree_;
  fetch::Fetcher& fetcher_;
  cache::Cache* const cache_;
  Meters meters_;
  const std::shared_ptr<Parking> parking_;
  NameExpiry expiry_;
  OpenRoutes routes_;
  Directories directories_;
  HandleTable<OpenFile> files_;
  const std::shared_ptr<Foresight> foresight_;
};

Cancel RealFileSystem::lookup(NodeId parent, std::string_view name, std::function<void(Reply<EntryReply>)> done) {
  meters_.lookups.add();
  expiry_.lookup_begins(parent);
  auto answer = [this, parent, done = std::move(done)](Reply<EntryReply> reply) {
    done(std::move(reply));
    expiry_.lookup_ended(parent);
  };
  const auto operation = Operation<EntryReply>::begin(parking_, std::move(answer));
  if (!operation) return {};
  tree_.lookup(parent, name, [this, &tree = tree_, operation](const base::Result<tree::Node>& node) {
    const Claim claim = operation->claim();
    if (!claim) {
      if (node) tree.forget(node->id, 1);
      return;
    }
    if (!node) return operation->answer_error(errno_of(node.error()));
    operation->answer({0, {node->id, attributes_of(*node, options_), node->valid_for}});
  });
  return park(operation);
}

void RealFileSystem::forget(NodeId node, uint64_t count) {
  meters_.forgets.add();
  directories_.forget(node);
  tree_.forget(node, count);
}

Cancel RealFileSystem::getattr(NodeId node, std::function<void(Reply<AttrReply>)> done) {
  meters_.getattrs.add();
  const auto operation = Operation<AttrReply>::begin(parking_, std::move(done));
  if (!operation) return {};
  tree_.getattr(node, [this, operation](const base::Result<tree::Node>& found) {
    const Claim claim = operation->claim();
    if (!claim) return;
    if (!found) return operation->answer_error(errno_of(found.error()));
    operation->answer({0, {attributes_of(*found, options_), found->valid_for}});
  });
  return park(operation);
}

Cancel RealFileSystem::open(NodeId node, int flags, Caller caller, std::function<void(Reply<OpenReply>)> done) {
  meters_.opens.add();
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | O_CREAT)) != 0) {
    done(failed<OpenReply>(EROFS));
    return {};
  }
  const auto operation = Operation<OpenReply>::begin(parking_, std::move(done));
  if (!operation) return {};
  tree_.getattr(node, [this, operation, caller](const base::Result<tree::Node>& found) {
    const Claim claim = operation->claim();
    if (!claim) return;
    if (!found) {
      // ESTALE makes the kernel look the name up again by itself; it finds the new version, or that there is none.
      const bool gone = found.error().code == Code::kNotFound || found.error().code == Code::kChanged;
      return operation->answer_error(gone ? ESTALE : errno_of(found.error()));
    }
    if (found->kind == tree::Kind::kDirectory) return operation->answer_error(EISDIR);
    if (found->info.archived) {
      base::warn_once(found->info.key, "{}: archived ({}): restore it before it is read", found->info.key,
                      found->info.storage_class);
      return operation->answer_error(EACCES);
    }
    routes_.open(*found, caller.process, [this, operation, caller](const OpenRoutes::Outcome& outcome) {
      opened(outcome, caller.process, *operation);
    });
  });
  return park(operation);
}

void RealFileSystem::opened(const OpenRoutes::Outcome& outcome, uint32_t process, Operation<OpenReply>& operation) {
  if (!outcome.node) return operation.answer_error(outcome.error);
  auto file = std::make_shared<OpenFile>(OpenFile{outcome.node, outcome.route, false});
  if (const auto& source = outcome.node->source()) {
    // Before the reply: the close must not overtake it.
    file->foreseen = foresight_->on_open(*source, process, outcome.route == Route::kPassthrough);
  }
  OpenReply reply;
  reply.handle = files_.add(std::move(file));
  reply.route = outcome.route;
  reply.backing_id = outcome.backing_id;
  meters_.open_files.add(1);
  operation.answer({0, reply});
}

Cancel RealFileSystem::read(HandleId handle, uint64_t offset_bytes, size_t size_bytes, Caller caller,
                            std::function<void(Reply<fetch::Pieces>)> done) {
  meters_.reads.add();
  const auto file = files_.find(handle);
  if (!file) {
    done(failed<fetch::Pieces>(EBADF));
    return {};
  }
  const uint64_t file_bytes = file->node->size_bytes();
  if (offset_bytes >= file_bytes || size_bytes == 0) {
    done({});
    return {};
  }
  const base::ByteRange range{offset_bytes, offset_bytes + std::min<uint64_t>(size_bytes, file_bytes - offset_bytes)};
  const auto operation = Operation<fetch::Pieces>::begin(parking_, std::move(done));
  if (!operation) return {};
  auto parked =
      file->node->source()->read(range, caller.process, [this, operation](base::Result<fetch::Pieces> pieces) {
        const Claim claim = operation->claim();
        if (!claim) return;
        if (!pieces) return operation->answer_error(errno_of(pieces.error()));
        uint64_t bytes = 0;
        for (const iovec& piece : *pieces) bytes += piece.iov_len;
        meters_.read_bytes.add(bytes);
        meters_.read_time.record(operation->age());
        operation->answer({0, *pieces});
      });
  if (!parking_->park(operation)) return {};
  return [cancel = cancel_of(operation), parked = std::move(parked)] {
    if (parked) parked->cancel();
    cancel();
  };
}

void RealFileSystem::release(HandleId handle) {
  meters_.releases.add();
  const auto file = files_.remove(handle);
  if (!file) return;
  if (file->foreseen) foresight_->on_close(file->node->source()->info());
  routes_.close(file->node, file->route);
  meters_.open_files.add(-1);
}

Cancel RealFileSystem::opendir(NodeId node, std::function<void(Reply<OpenDirectoryReply>)> done) {
  meters_.opendirs.add();
  const auto operation = Operation<OpenDirectoryReply>::begin(parking_, std::move(done));
  if (!operation) return {};
  tree_.list(node, [this, node, operation](base::Result<std::shared_ptr<const tree::Listing>> listing) {
    const Claim claim = operation->claim();
    if (!claim) return;
    if (!listing) return operation->answer_error(errno_of(listing.error()));
    operation->answer({0, directories_.open(node, std::move(*listing))});
  });
  return park(operation);
}

int RealFileSystem::readdir(HandleId handle, uint64_t offset, bool with_attributes,
                            const std::function<bool(const DirectoryEntry&)>& emit) {
  meters_.readdirs.add();
  const int error = parking_->closed() ? EIO : directories_.read(handle, offset, with_attributes, emit);
  if (error != 0) meters_.count_error(error);
  return error;
}

Reply<struct statvfs> RealFileSystem::statfs() {
  meters_.statfs.add();
  // A store has no size. "Used" is what the local cache holds, so that df says something of use.
  constexpr uint64_t kBlockBytes = 4096;
  const uint64_t used_bytes = cache_ == nullptr ? 0 : cache_->stats().used_bytes;
  struct statvfs made {};
  made.f_bsize = made.f_frsize = kBlockBytes;
  made.f_blocks = options_.statfs_total_bytes / kBlockBytes;
  made.f_bfree = made.f_bavail = made.f_blocks - std::min<uint64_t>(made.f_blocks / 2, used_bytes / kBlockBytes);
  made.f_files = made.f_blocks;
  made.f_ffree = made.f_favail = made.f_files - std::min<uint64_t>(made.f_files / 2, tree_.node_count());
  made.f_namemax = 255;
  made.f_flag = ST_RDONLY | ST_NOSUID;
  return {0, made};
}

std::string RealFileSystem::directory_key(tree::Node node) const {
  std::string path;
  while (node.parent != 0) {
    path.insert(0, node.name + "/");
    auto parent = tree_.find(node.parent);
    if (!parent) break;
    node = std::move(*parent);
  }
  return options_.key_prefix + path;
}

Reply<std::string> RealFileSystem::getxattr(NodeId id, std::string_view name) {
  meters_.getxattrs.add();
  if (!is_own_attribute(name)) return {ENODATA, {}};
  if (parking_->closed()) return failed<std::string>(EIO);
  const auto node = tree_.find(id);
  if (!node) return failed<std::string>(ESTALE);
  std::shared_ptr<fetch::SourceFile> source;
  if (needs_source(name) && node->kind == tree::Kind::kFile && node->info.size_bytes > 0) {
    source = routes_.source_of(id);
    if (!source) source = fetcher_.open(node->info);
  }
  const std::string directory = node->kind == tree::Kind::kDirectory ? directory_key(*node) : std::string();
  auto value = attribute_value(name, *node, source.get(), directory);
  if (!value) return failed<std::string>(errno_of(value.error()));
  return {0, std::move(*value)};
}

Reply<std::vector<std::string>> RealFileSystem::listxattr(NodeId id) {
  if (parking_->closed()) return failed<std::vector<std::string>>(EIO);
  const auto node = tree_.find(id);
  if (!node) return failed<std::vector<std::string>>(ESTALE);
  return {0, attribute_names(*node)};
}

}  // namespace

std::unique_ptr<FileSystem> FileSystem::make(FileSystemOptions options, tree::Tree& tree, fetch::Fetcher& fetcher,
                                             cache::Cache* cache, base::Executor& executor, const base::Clock& clock,
                                             base::Metrics& metrics, Kernel& kernel) {
  return std::make_unique<RealFileSystem>(options, tree, fetcher, cache, executor, clock, metrics, kernel);
}

}  // namespace shardfs::fs
