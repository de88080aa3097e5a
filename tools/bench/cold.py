#!/usr/bin/env python3
"""Cold: shards of 128 MiB that no cache holds, read by one reader in order and by four, and over HTTPS with signatures,
beside raw parallel GETs, in turns.

Each turn mounts anew. The first byte is that of another shard, the first that the mount is asked for.
"""

import os
import shutil
import tempfile
import time

import support
from support import Row, in_processes, in_turns, median, read_all_of, read_whole, seconds_of, spread

SHARDS = 4


def read_cold(bench, store, names):
    with bench.mount(store, "shards/") as mount:
        first_byte_ms = seconds_of(lambda: read_first(mount.path / "first.tar")) * 1e3
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


def read_by_four(mounting, store, names):
    with mounting() as mount:
        store.reset()
        start = time.perf_counter()
        total = sum(in_processes(4, lambda j: read_all_of([mount.path / name for name in names[j::4]])))
        seconds = time.perf_counter() - start
        return {"mb_per_s": total / seconds / 1e6, "fetched": store.stats().body_bytes / total}


def peer_reads(mounting, names):
    """One turn of a peer: the first byte, and one reader."""
    with mounting() as mount:
        first_byte = seconds_of(lambda: read_first(mount.path / "first.tar"))
        total = []
        seconds = seconds_of(lambda: total.append(read_all_of([mount.path / name for name in names])))
        return {"mb_per_s": total[0] / seconds / 1e6, "first_byte_ms": first_byte * 1e3}


def read_first(path):
    file = os.open(path, os.O_RDONLY)
    os.pread(file, 4096, 0)
    os.close(file)


def raw(bench, connections, urls, to_files=False, ca=None):
    folder = tempfile.mkdtemp(dir=bench.folder) if to_files else None
    try:
        return bench.raw_get(connections, urls, folder, ca)
    finally:
        if folder:
            shutil.rmtree(folder)


def column(runs, field):
    return [run[field] for run in runs]


def plain(bench, size):
    names = [f"shard-{i:06d}.tar" for i in range(SHARDS)]
    more = [f"shard-{i:06d}.tar" for i in range(2 * SHARDS)]
    with bench.store() as store:
        store.put_generated("shards/first.tar", size, seed=100)
        for seed, name in enumerate(more):
            store.put_generated(f"shards/{name}", size, seed=seed)
        urls = [store.endpoint + store.path(f"shards/{name}") for name in names]
        mounts = bench.systems(store, "shards/")
        ours = mounts.pop("shardfs")
        bench.progress(f"{bench.turns} turns: shardfs with one reader and four, raw GETs with 16 and 32 connections")
        runs = in_turns(bench.turns, {"shardfs": lambda: read_cold(bench, store, names),
                                      "raw 16": lambda: raw(bench, 16, urls),
                                      "raw 16 to files": lambda: raw(bench, 16, urls, True),
                                      "four readers": lambda: read_by_four(ours, store, more),
                                      "raw 32 to files": lambda: raw(bench, 32, urls, True)})
        bench.progress("the peers")
        peers = {name: {**peer_reads(mounting, names), "four": read_by_four(mounting, store, more)["mb_per_s"]}
                 for name, mounting in mounts.items()}

    def beside(text, field):
        return text + "".join(f", {peer[field]:,.0f} {name}" for name, peer in peers.items())

    def rate(what, name, raw_name, target):
        mine, limit = column(runs[name], "mb_per_s"), column(runs[raw_name], "mb_per_s")
        ratio = median(mine) / median(limit)
        return Row(f"cold, {what}, MB/s", spread(mine),
                   beside(f"{spread(limit)} {raw_name} connections", "four" if what != "one reader" else "mb_per_s"),
                   ratio, str(target), ratio >= target)

    first, raw_first = column(runs["shardfs"], "first_byte_ms"), column(runs["raw 16"], "first_byte_ms")
    cpu, raw_cpu = column(runs["shardfs"], "cpu_s_per_gb"), column(runs["raw 16 to files"], "cpu_s_per_gb")
    fetched = max(run["fetched_bytes"] / run["bytes"] for run in runs["shardfs"])
    rows = [rate("one reader", "shardfs", "raw 16", 0.85), rate("four readers", "four readers", "raw 32 to files", 0.8),
            Row("first byte of a shard, ms", spread(first), beside(f"{spread(raw_first)} one raw GET", "first_byte_ms"),
                median(first) / median(raw_first), "70 ms", median(first) <= 70),
            Row("processor time of the daemon, cold, s/GB", spread(cpu), f"{spread(raw_cpu)} raw GETs to files",
                median(cpu) / median(raw_cpu), "1.0 s", median(cpu) <= 1.0),
            Row("fetched ÷ read", f"{fetched:.3f}", "", None, "1.05", fetched <= 1.05)]
    return rows, {**runs, "peers": peers}


def https(bench, size):
    names = [f"shard-{i:06d}.tar" for i in range(SHARDS)]
    with bench.store(tls=True, no_auth=False) as store, bench.store(tls=True) as unsigned:
        store.put_generated("shards/first.tar", size, seed=100)
        for seed, name in enumerate(names):
            store.put_generated(f"shards/{name}", size, seed=seed)
            unsigned.put_generated(f"shards/{name}", size, seed=seed)
        urls = [unsigned.endpoint + unsigned.path(f"shards/{name}") for name in names]
        bench.progress("HTTPS with signatures")
        runs = in_turns(bench.turns, {"shardfs": lambda: read_cold(bench, store, names),
                                      "raw 16": lambda: raw(bench, 16, urls, ca=unsigned.certificate)})
    mine, limit = (column(runs[name], "mb_per_s") for name in ("shardfs", "raw 16"))
    cpu, raw_cpu = (column(runs[name], "cpu_s_per_gb") for name in ("shardfs", "raw 16"))
    ratio = median(mine) / median(limit)
    return [Row("cold, one reader, HTTPS with signatures, MB/s", spread(mine), f"{spread(limit)} raw 16 connections", ratio,
                "0.7", ratio >= 0.7),
            Row("processor time of the daemon, HTTPS, s/GB", spread(cpu), f"{spread(raw_cpu)} raw GETs", None, "1.6 s",
                median(cpu) <= 1.6)], runs


def measure(bench):
    size = (13 if bench.quick else 128) << 20
    rows, figures = plain(bench, size)
    some, figures["https"] = https(bench, size)
    return rows + some, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
