#include "fuse/reply.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace shardfs::fuse {
namespace {

void on_interrupt(fuse_req_t request, void* data) noexcept {
  auto& connection = *static_cast<Connection*>(fuse_req_userdata(request));
  if (const auto found = connection.interrupts.find(reinterpret_cast<uintptr_t>(data))) found->interrupt();
}

fs::Caller caller_of(fuse_req_t request) {
  const fuse_ctx* context = fuse_req_ctx(request);
  return {static_cast<uint32_t>(context->pid), context->uid, context->gid};
}

}  // namespace

Request::Request(fuse_req_t request)
    : connection_(*static_cast<Connection*>(fuse_req_userdata(request))),
      caller_(caller_of(request)),
      request_(request) {}

Request::~Request() { error(EIO); }

void Request::allow_interrupt() {
  number_ = connection_.interrupts.add(weak_from_this());
  fuse_req_interrupt_func(request_, on_interrupt, reinterpret_cast<void*>(static_cast<uintptr_t>(number_)));
}

void Request::cancel_by(fs::Cancel cancel) {
  if (!cancel) return;
  {
    std::lock_guard lock(mutex_);
    if (!interrupted_) {
      // Answered meanwhile: nobody will ask for it, and it may hold this request.
      if (request_.load() != nullptr) cancel_ = std::move(cancel);
      return;
    }
  }
  cancel();
}

void Request::interrupt() noexcept {
  fs::Cancel cancel;
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
    cancel = std::exchange(cancel_, nullptr);
  }
  if (cancel) cancel();
}

fuse_req_t Request::take() noexcept {
  const fuse_req_t request = request_.exchange(nullptr);
  if (request == nullptr) return nullptr;
  if (number_ != 0) {
    connection_.interrupts.remove(number_);
    fs::Cancel dropped;
    std::lock_guard lock(mutex_);
    dropped = std::exchange(cancel_, nullptr);
  }
  return request;
}

void Request::error(int error) noexcept {
  if (const fuse_req_t request = take()) fuse_reply_err(request, error);
}

void Request::entry(const fs::Reply<fs::EntryReply>& reply) noexcept {
  if (reply.error != 0) return error(reply.error);
  const fuse_req_t request = take();
  const fuse_entry_param entry = to_entry(reply.value.node, reply.value.attributes, reply.value.valid_for);
  if (request == nullptr || fuse_reply_entry(request, &entry) != 0) file_system().forget(reply.value.node, 1);
}

void Request::attributes(const fs::Reply<fs::AttrReply>& reply) noexcept {
  if (reply.error != 0) return error(reply.error);
  if (const fuse_req_t request = take()) {
    fuse_reply_attr(request, &reply.value.attributes, to_timeout(reply.value.valid_for));
  }
}

void Request::open(const fs::Reply<fs::OpenReply>& reply, fuse_file_info info) noexcept {
  if (reply.error != 0) return error(reply.error);
  info.fh = reply.value.handle;
  info.noflush = 1;
  if (reply.value.route == fs::Route::kPassthrough) {
#if SHARDFS_LIBFUSE_PASSTHROUGH
    info.backing_id = reply.value.backing_id;  // never with keep_cache: the kernel refuses both together
#endif
  } else {
    info.keep_cache = 1;  // without it an open hangs behind an unanswered READ
  }
  const fuse_req_t request = take();
  if (request == nullptr || fuse_reply_open(request, &info) != 0) file_system().release(reply.value.handle);
}

void Request::open_directory(const fs::Reply<fs::OpenDirectoryReply>& reply, fuse_file_info info) noexcept {
  if (reply.error != 0) return error(reply.error);
  info.fh = reply.value.handle;
  info.cache_readdir = 1;
  info.keep_cache = reply.value.same_listing ? 1 : 0;
  const fuse_req_t request = take();
  if (request == nullptr || fuse_reply_open(request, &info) != 0) file_system().releasedir(reply.value.handle);
}

void Request::pieces(const fs::Reply<fetch::Pieces>& reply) noexcept {
  if (reply.error != 0) return error(reply.error);
  if (const fuse_req_t request = take()) {
    fuse_reply_iov(request, reply.value.data(), static_cast<int>(reply.value.size()));
  }
}

void Request::statfs(const fs::Reply<struct statvfs>& reply) noexcept {
  if (reply.error != 0) return error(reply.error);
  if (const fuse_req_t request = take()) fuse_reply_statfs(request, &reply.value);
}

void Request::attribute_value(const fs::Reply<std::string>& reply, size_t size_bytes) noexcept {
  if (reply.error != 0) return error(reply.error);
  if (size_bytes > 0 && reply.value.size() > size_bytes) return error(ERANGE);
  const fuse_req_t request = take();
  if (request == nullptr) return;
  if (size_bytes == 0) {
    fuse_reply_xattr(request, reply.value.size());
  } else {
    fuse_reply_buf(request, reply.value.data(), reply.value.size());
  }
}

bool Request::buffer(const char* data, size_t size_bytes) noexcept {
  const fuse_req_t request = take();
  return request != nullptr && fuse_reply_buf(request, data, size_bytes) == 0;
}

fuse_entry_param to_entry(fs::NodeId node, const struct stat& attributes, std::chrono::milliseconds valid_for) {
  fuse_entry_param entry{};
  entry.ino = node;
  entry.generation = 1;  // nodeids are never used twice
  entry.attr = attributes;
  entry.attr_timeout = entry.entry_timeout = to_timeout(valid_for);
  return entry;
}

double to_timeout(std::chrono::milliseconds valid_for) {
  return std::clamp(std::chrono::duration<double>(valid_for).count(), 0.0, 1e9);
}

}  // namespace shardfs::fuse
