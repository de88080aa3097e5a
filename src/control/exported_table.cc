#include "control/exported_table.h"

namespace shardfs::control {
namespace {

using Kind = ExportedMetric::Kind;

constexpr std::string_view kReads = "Reads that the daemon answered, by how much of them was resident";
constexpr std::string_view kReadResultBytes = "Bytes of these reads";

constexpr ExportedMetric kTable[] = {
    // clang-format off
    {Kind::kCounter, "fs_read_bytes", "read_bytes_total", "Bytes answered to readers by the daemon"},
    {Kind::kCounter, "fs_passthrough_open_bytes", "passthrough_open_bytes_total", "Size of the object, summed over the passthrough opens"},
    {Kind::kCounter, "fetch_received_bytes", "fetched_bytes_total", "Object bytes received from the store, by why they were fetched", "cause"},
    {Kind::kCounter, "fetch_read_bytes", "served_bytes_total", "Bytes answered by the daemon, by why they had been fetched", "cause"},
    {Kind::kCounter, "fetch_used_bytes", "used_bytes_total", "Of the bytes fetched, those that were read", "cause"},
    {Kind::kCounter, "fetch_bypassed_bytes", "bypassed_bytes_total", "Bytes fetched and not written to the cache"},
    {Kind::kCounter, "fetch_hits", "reads_total", kReads, "result", "hit"},
    {Kind::kCounter, "fetch_partial_hits", "reads_total", kReads, "result", "partial_hit"},
    {Kind::kCounter, "fetch_misses", "reads_total", kReads, "result", "miss"},
    {Kind::kCounter, "fetch_hit_bytes", "reads_bytes_total", kReadResultBytes, "result", "hit"},
    {Kind::kCounter, "fetch_partial_hit_bytes", "reads_bytes_total", kReadResultBytes, "result", "partial_hit"},
    {Kind::kCounter, "fetch_miss_bytes", "reads_bytes_total", kReadResultBytes, "result", "miss"},
    {Kind::kHistogram, "fs_read_seconds", "read_seconds", "From a daemon read's arrival to its answer"},
    {Kind::kHistogram, "fetch_stall_seconds", "stall_seconds", "How long reads were parked"},
    {Kind::kCounter, "fetch_stalled_nanoseconds", "stalled_by_seconds_total", "What parked reads waited for", "reason", "", 1e-9},
    {Kind::kGauge, "fetch_parked_reads", "parked_reads", "Reads that wait for the store now"},
    {Kind::kGauge, "fetch_parts", "parts", "Parts under way now"},
    {Kind::kCounter, "fetch_hedged_parts", "hedged_parts_total", "Late parts that were asked for a second time"},
    {Kind::kCounter, "fetch_hedges_won", "hedges_won_total", "Of these, the second answer came first"},
    {Kind::kCounter, "fetch_preempted_parts", "preempted_parts_total", "Predicted parts that gave way to demand"},
    {Kind::kGauge, "fetch_memory_bytes", "memory_bytes", "Buffers of data under way"},
    {Kind::kGauge, "fetch_memory_limit_bytes", "memory_limit_bytes", "Their limit"},

    {Kind::kGauge, "cache_used_bytes", "cache_used_bytes", "Allocated or reserved in the cache folder by all its mounts"},
    {Kind::kGauge, "cache_limit_bytes", "cache_limit_bytes", "Hard limit of the cache; 0: none"},
    {Kind::kCounter, "cache_written_bytes", "cache_written_bytes_total", "Bytes written to the cache"},
    {Kind::kCounter, "cache_evicted_files", "cache_evicted_files_total", "Files evicted by this mount"},
    {Kind::kCounter, "cache_evicted_bytes", "cache_evicted_bytes_total", "Bytes evicted by this mount"},
    {Kind::kCounter, "cache_bad_blocks", "cache_bad_blocks_total", "Blocks found damaged, dropped and fetched again"},
    {Kind::kCounter, "cache_write_errors", "cache_write_errors_total", "Writes that the cache disk refused"},

    {Kind::kCounter, "fs_opens", "opens_total", "Opens, by route", "route"},
    {Kind::kCounter, "fs_operations", "operations_total", "Requests of the kernel", "operation"},
    {Kind::kCounter, "fs_errors", "operation_errors_total", "Requests of the kernel that were answered with an error", "errno"},
    {Kind::kGauge, "fs_open_files", "open_files", "Open handles"},
    {Kind::kGauge, "fs_backing_ids", "backing_ids", "Files that the kernel reads by itself now"},
    {Kind::kGauge, "tree_nodes", "nodes", "Inodes that the kernel knows or a listing needs"},
    {Kind::kCounter, "tree_stale_answers", "stale_answers_total", "Names and attributes served past their lifetime, since the store did not answer"},

    {Kind::kCounter, "store_requests", "store_requests_total", "Requests sent to the store, every try", "kind"},
    {Kind::kCounter, "store_retries", "store_retries_total", "Of these, tries after the first", "kind"},
    {Kind::kCounter, "store_requests_refused", "store_refused_requests_total", "Of these, refused with 503 or 429, or without connection or answer"},
    {Kind::kCounter, "store_errors", "store_errors_total", "Requests that failed for good", "code"},
    {Kind::kCounter, "store_received_bytes", "store_received_bytes_total", "All bodies from the store, listings and errors included"},
    {Kind::kHistogram, "store_first_byte_seconds", "store_first_byte_seconds", "From a request sent to the first byte of its answer", "kind"},
    {Kind::kGauge, "store_connections_active", "store_connections", "Connections in use"},
    {Kind::kGauge, "store_connections_limit", "store_connections_limit", "The limit, which follows the store"},
    {Kind::kGauge, "store_requests_waiting", "store_requests_waiting", "Requests that wait for a connection"},
    // clang-format on
};

}  // namespace

std::span<const ExportedMetric> exported_table() { return kTable; }

}  // namespace shardfs::control
