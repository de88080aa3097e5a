#!/usr/bin/env python3
"""Cold: four shards of 128 MiB that no cache holds, read by one reader in order, beside raw parallel GETs, in turns.

Each turn mounts anew. The first byte is that of another shard, the first that the mount is asked for.
"""

import os
import shutil
import tempfile
import time

import support
from support import Row, in_turns, median, read_whole, spread

SHARDS = 4


def read_cold(bench, store, names):
    with bench.mount(store, "shards/") as mount:
        start = time.perf_counter()
        file = os.open(mount.path / "first.tar", os.O_RDONLY)
        os.pread(file, 4096, 0)
        first_byte_ms = (time.perf_counter() - start) * 1e3
        os.close(file)
        read_whole(mount.path / "first.tar")  # what it still fetches is out of the way
        store.reset()
        cpu, start = mount.cpu_s(), time.perf_counter()
        total = sum(read_whole(mount.path / name) for name in names)
        seconds = time.perf_counter() - start
        stats = store.stats()
        fetched = sum(stats.key(f"shards/{name}").body_bytes for name in names)
        return {"mb_per_s": total / seconds / 1e6, "seconds": seconds, "first_byte_ms": first_byte_ms,
                "cpu_s_per_gb": (mount.cpu_s() - cpu) / total * 1e9, "bytes": total, "fetched_bytes": fetched,
                "gets": stats.gets, "heads": stats.heads, "connections": stats.max_concurrent_requests}


def measure(bench):
    size = (13 if bench.quick else 128) << 20
    names = [f"shard-{i:06d}.tar" for i in range(SHARDS)]
    with bench.store() as store:
        store.put_generated("shards/first.tar", size, seed=SHARDS)
        for seed, name in enumerate(names):
            store.put_generated(f"shards/{name}", size, seed=seed)
        urls = [store.endpoint + store.path(f"shards/{name}") for name in names]

        def raw(connections, to_files):
            folder = tempfile.mkdtemp(dir=bench.folder) if to_files else None
            try:
                return bench.raw_get(connections, urls, folder)
            finally:
                if folder:
                    shutil.rmtree(folder)

        bench.progress(f"{bench.turns} turns: shardfs, raw GETs with 16 and 32 connections")
        runs = in_turns(bench.turns, {"shardfs": lambda: read_cold(bench, store, names),
                                      "raw 16": lambda: raw(16, False), "raw 16 to files": lambda: raw(16, True),
                                      "raw 32": lambda: raw(32, False)})

    def column(name, field):
        return [run[field] for run in runs[name]]

    ours = column("shardfs", "mb_per_s")
    rows = [Row(f"cold, one reader, MB/s ({what})", spread(ours), spread(column(name, "mb_per_s")),
                median(ours) / median(column(name, "mb_per_s")), *target)
            for name, what, target in (("raw 16", "beside 16 raw connections", ("600 MB/s", median(ours) >= 600)),
                                       ("raw 16 to files", "beside 16, to files", ()), ("raw 32", "beside 32", ()))]
    first = column("shardfs", "first_byte_ms")
    raw_first = column("raw 16", "first_byte_ms")
    cpu = column("shardfs", "cpu_s_per_gb")
    raw_cpu = column("raw 16 to files", "cpu_s_per_gb")
    fetched = max(run["fetched_bytes"] / run["bytes"] for run in runs["shardfs"])
    rows += [Row("first byte of a shard, ms", spread(first), f"{spread(raw_first)} one raw GET",
                 median(first) / median(raw_first), "below 100 ms", median(first) < 100),
             Row("processor time, s/GB", spread(cpu), f"{spread(raw_cpu)} raw GETs to files",
                 median(cpu) / median(raw_cpu)),
             Row("fetched ÷ read", f"{fetched:.3f}", "", None, "1.05", fetched <= 1.05)]
    return rows, runs


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
