#include "fuse/operations.h"

#include <cerrno>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "fuse/connection.h"
#include "fuse/reply.h"

namespace shardfs::fuse {
namespace {

Connection& connection_of(fuse_req_t request) { return *static_cast<Connection*>(fuse_req_userdata(request)); }

/// No exception passes into libfuse. A request that the body leaves unanswered is answered with EIO.
template <class Body>
void answer(fuse_req_t raw, Body body) noexcept {
  std::shared_ptr<Request> request;
  try {
    request = std::make_shared<Request>(raw);
  } catch (...) {
    fuse_reply_err(raw, ENOMEM);
    return;
  }
  try {
    body(request);
  } catch (const std::exception& problem) {
    request->error(EIO);
    base::warn_once("fuse: exception", "an operation ended with an exception: {}", problem.what());
  }
}

void want(fuse_conn_info* connection, unsigned flag, bool on) {
#if SHARDFS_LIBFUSE_PASSTHROUGH
  if (on) {
    fuse_set_feature_flag(connection, flag);  // only if the kernel has it
  } else {
    fuse_unset_feature_flag(connection, flag);
  }
#else
  if (on) {
    connection->want |= connection->capable & flag;
  } else {
    connection->want &= ~flag;
  }
#endif
}

void op_init(void* userdata, fuse_conn_info* kernel) noexcept {
  auto& connection = *static_cast<Connection*>(userdata);
  for (const unsigned flag :
       {FUSE_CAP_ASYNC_READ, FUSE_CAP_PARALLEL_DIROPS, FUSE_CAP_READDIRPLUS, FUSE_CAP_READDIRPLUS_AUTO}) {
    want(kernel, flag, true);
  }
  // Objects never change under a nodeid, and nothing is written. With asynchronous O_DIRECT a reader could not be
  // killed while its READ is parked.
  for (const unsigned flag : {FUSE_CAP_AUTO_INVAL_DATA, FUSE_CAP_WRITEBACK_CACHE, FUSE_CAP_ASYNC_DIO}) {
    want(kernel, flag, false);
  }
  kernel->max_background = connection.options.max_background;
  kernel->congestion_threshold = connection.options.congestion_threshold;
  connection.passthrough.negotiate(*kernel, connection.options.stacked_backing);
}

void op_lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->allow_interrupt();
    request->cancel_by(
        request->file_system().lookup(parent, name, [request](const auto& reply) { request->entry(reply); }));
  });
}

void op_forget(fuse_req_t raw, fuse_ino_t node, uint64_t count) noexcept {
  connection_of(raw).file_system->forget(node, count);
  fuse_reply_none(raw);
}

void op_forget_multi(fuse_req_t raw, size_t count, fuse_forget_data* forgets) noexcept {
  for (size_t i = 0; i < count; ++i) connection_of(raw).file_system->forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(raw);
}

void op_getattr(fuse_req_t raw, fuse_ino_t node, fuse_file_info*) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->allow_interrupt();
    request->cancel_by(
        request->file_system().getattr(node, [request](const auto& reply) { request->attributes(reply); }));
  });
}

void op_open(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->allow_interrupt();
    request->cancel_by(
        request->file_system().open(node, info->flags, request->caller(),
                                    [request, info = *info](const auto& reply) { request->open(reply, info); }));
  });
}

void op_read(fuse_req_t raw, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->allow_interrupt();
    request->cancel_by(request->file_system().read(info->fh, static_cast<uint64_t>(offset), size, request->caller(),
                                                   [request](const auto& reply) { request->pieces(reply); }));
  });
}

void op_release(fuse_req_t raw, fuse_ino_t, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->file_system().release(info->fh);
    request->error(0);
  });
}

void op_opendir(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->allow_interrupt();
    request->cancel_by(request->file_system().opendir(
        node, [request, info = *info](const auto& reply) { request->open_directory(reply, info); }));
  });
}

/// A worker's own, kept for the next directory.
std::vector<char>& entry_buffer(size_t size_bytes) {
  thread_local std::vector<char> buffer;
  if (buffer.size() < size_bytes) buffer.resize(size_bytes);
  return buffer;
}

void op_readdir(fuse_req_t raw, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    std::vector<char>& buffer = entry_buffer(size);
    size_t used = 0;
    std::string name;
    const int error = request->file_system().readdir(
        info->fh, static_cast<uint64_t>(offset), false, [&](const fs::DirectoryEntry& entry) {
          name.assign(entry.name);
          const size_t needed = fuse_add_direntry(raw, buffer.data() + used, size - used, name.c_str(),
                                                  &entry.attributes, static_cast<off_t>(entry.next_offset));
          if (needed > size - used) return false;
          used += needed;
          return true;
        });
    if (error != 0) return request->error(error);
    request->buffer(buffer.data(), used);
  });
}

void op_readdirplus(fuse_req_t raw, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    std::vector<char>& buffer = entry_buffer(size);
    size_t used = 0;
    std::string name;
    std::vector<fs::NodeId> counted;
    const int error = request->file_system().readdir(
        info->fh, static_cast<uint64_t>(offset), true, [&](const fs::DirectoryEntry& entry) {
          name.assign(entry.name);
          const fuse_entry_param shown = to_entry(entry.node, entry.attributes, entry.valid_for);
          const size_t needed = fuse_add_direntry_plus(raw, buffer.data() + used, size - used, name.c_str(), &shown,
                                                       static_cast<off_t>(entry.next_offset));
          if (needed > size - used) return false;
          used += needed;
          if (entry.node != 0) counted.push_back(entry.node);
          return true;
        });
    if (error != 0) return request->error(error);
    if (request->buffer(buffer.data(), used)) return;
    for (const fs::NodeId node : counted) request->file_system().forget(node, 1);
  });
}

void op_releasedir(fuse_req_t raw, fuse_ino_t, fuse_file_info* info) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->file_system().releasedir(info->fh);
    request->error(0);
  });
}

void op_statfs(fuse_req_t raw, fuse_ino_t) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) { request->statfs(request->file_system().statfs()); });
}

void op_getxattr(fuse_req_t raw, fuse_ino_t node, const char* name, size_t size) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    request->attribute_value(request->file_system().getxattr(node, name), size);
  });
}

void op_listxattr(fuse_req_t raw, fuse_ino_t node, size_t size) noexcept {
  answer(raw, [&](const std::shared_ptr<Request>& request) {
    const auto names = request->file_system().listxattr(node);
    fs::Reply<std::string> joined{names.error, {}};
    for (const std::string& name : names.value) joined.value.append(name).push_back('\0');
    request->attribute_value(joined, size);
  });
}

}  // namespace

fuse_lowlevel_ops make_operations(bool extended_attributes) {
  fuse_lowlevel_ops operations{};
  operations.init = op_init;
  operations.lookup = op_lookup;
  operations.forget = op_forget;
  operations.forget_multi = op_forget_multi;
  operations.getattr = op_getattr;
  operations.open = op_open;
  operations.read = op_read;
  operations.release = op_release;
  operations.opendir = op_opendir;
  operations.readdir = op_readdir;
  operations.readdirplus = op_readdirplus;
  operations.releasedir = op_releasedir;
  operations.statfs = op_statfs;
  if (extended_attributes) {
    operations.getxattr = op_getxattr;
    operations.listxattr = op_listxattr;
  }
  return operations;
}

}  // namespace shardfs::fuse
