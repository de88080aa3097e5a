// What a mount tells its service manager and asks of the kernel for its own process.
// Not the unit: that is packaging/systemd/shardfs@.service.
// Thread rule: thread-safe functions that do not block.
#pragma once

#include <string_view>

namespace shardfs::app {

/// One message of sd_notify(3), such as "READY=1". Without NOTIFY_SOCKET, or where nobody listens, nothing happens.
void notify_service(std::string_view state);
/// Before what notify_service("READY=1") ends again: "RELOADING=1" with the time that the protocol wants.
void notify_reloading();

/// The soft limit of open files becomes the hard one.
void raise_descriptor_limit();
/// For the kernel's choice of whom to end when memory is short; lowering it needs CAP_SYS_RESOURCE, and is else only
/// logged.
void set_oom_score(int score);

}  // namespace shardfs::app
