#!/usr/bin/env python3
"""Order: what a job meets when it goes from shard to shard: the time to open and read the first bytes of each, read in
order at 300 MB/s by one reader and by four processes with stride four; what is fetched in vain when the order is shuffled;
and the epochs after the first of a set twice as large as the cache."""

import os
import random
import time

import support
from support import Row, in_processes, in_turns, median, quantile, read_whole, seconds_of, spread

SHARD = 64 << 20
SHARDS = 16
RATE = 300e6


def read_at_rate(path, bytes_per_s):
    """Seconds of open and first read of 64 KiB; then the rest, no faster than bytes_per_s."""
    start = time.perf_counter()
    file = os.open(path, os.O_RDONLY)
    total = len(os.pread(file, 65536, 0))
    first = time.perf_counter() - start
    piece = bytearray(1 << 20)
    while (count := os.preadv(file, [piece], total)) > 0:
        total += count
        early = start + total / bytes_per_s - time.perf_counter()
        if early > 0:
            time.sleep(early)
    os.close(file)
    return first


def first_reads(bench):
    size = SHARD // (8 if bench.quick else 1)
    with bench.store() as store:
        for seed in range(SHARDS):
            store.put_generated(f"shards/shard-{seed:05d}.tar", size, seed=seed)

        def job(readers):
            with bench.mount(store, "shards/") as mount:
                os.listdir(mount.path)
                paths = [mount.path / f"shard-{i:05d}.tar" for i in range(SHARDS)]
                store.reset()
                # The four share the rate: together they take what one reader does.
                waits = in_processes(readers, lambda j: [read_at_rate(path, RATE / readers) for path in
                                                         paths[j::readers]])
                fetched = store.stats().body_bytes
                return {"after_the_first_s": [wait for each in waits for wait in each[1:]],
                        "first_s": [each[0] for each in waits], "fetched": fetched / (SHARDS * size)}

        bench.progress("shards in order at 300 MB/s")
        runs = in_turns(bench.turns, {"one reader": lambda: job(1), "four processes, stride four": lambda: job(4)})
    rows = []
    for name, results in runs.items():
        waits = [wait * 1e3 for run in results for wait in run["after_the_first_s"]]
        p99 = quantile(waits, 0.99)
        rows.append(Row(f"in order at 300 MB/s, {name}: open and first read after the first shard, p99, ms",
                        f"{p99:.1f} (median {median(waits):.2f})",
                        f"{spread([wait * 1e3 for run in results for wait in run['first_s']])} the first shard", None,
                        "5 ms", p99 <= 5))
    return rows, runs


def shuffled(bench):
    size = SHARD // (8 if bench.quick else 1)
    with bench.store() as store:
        for seed in range(SHARDS):
            store.put_generated(f"shards/shard-{seed:05d}.tar", size, seed=seed)

        def job(turn):
            # The cache holds a quarter: what is fetched too early is gone before its turn.
            with bench.mount(store, "shards/", "--cache-size", str(SHARDS * size // 4)) as mount:
                names = sorted(os.listdir(mount.path))
                random.Random(turn).shuffle(names)
                store.reset()
                for name in names:
                    read_whole(mount.path / name)
                return store.stats().body_bytes / (SHARDS * size) - 1

        bench.progress("shuffled shard order, a cache of a quarter of the set")
        wasted = [job(turn) for turn in range(bench.turns)]
    return [Row("shuffled shard order: fetched in vain, %", spread([100 * w for w in wasted]), "", None, "3 %",
                max(wasted) <= 0.03)], wasted


def larger_than_cache(bench):
    size = (8 if bench.quick else 64) << 20
    count = 16
    with bench.store() as store:
        for seed in range(count):
            store.put_generated(f"shards/shard-{seed:05d}.tar", size, seed=seed)
        urls = [store.endpoint + store.path(f"shards/shard-{i:05d}.tar") for i in range(count)]
        # Room for half of the set, and for the cache's own files.
        with bench.mount(store, "shards/", "--cache-size", str(count * size // 2 + (16 << 20))) as mount:
            paths = [mount.path / f"shard-{i:05d}.tar" for i in range(count)]
            bench.progress("a set of twice the cache")
            support.read_all_of(paths)

            def epoch():
                """The rate is that of the shards that are fetched: the others come from the disk meanwhile."""
                store.reset()
                written = mount.stats()["cache_written_bytes"]
                support.drop_page_cache()
                seconds = {path.name: seconds_of(lambda path=path: read_whole(path)) for path in paths}
                stats = store.stats()
                fetched = {name: stats.key(f"shards/{name}").body_bytes for name in seconds}
                of_fetched = sum(seconds[name] for name, some in fetched.items() if some > 0)
                total = sum(fetched.values())
                return {"seconds": sum(seconds.values()), "fetched": total / (count * size),
                        "mb_per_s": total / of_fetched / 1e6,
                        "written": (mount.stats()["cache_written_bytes"] - written) / (count * size)}

            runs = in_turns(bench.turns, {"shardfs": epoch, "raw": lambda: bench.raw_get(16, urls)})
    ours = runs["shardfs"]
    rate = [run["mb_per_s"] for run in ours]
    raw = [run["mb_per_s"] for run in runs["raw"]]
    return [Row("a set of twice the cache, later epochs: fetched, MB/s", spread(rate), f"{spread(raw)} raw, 16 connections",
                median(rate) / median(raw), "0.85", median(rate) / median(raw) >= 0.85),
            Row("the same: share of the set that is fetched", spread([run["fetched"] for run in ours]), "0.5 cannot be held"),
            Row("the same: share of the set written to the cache disk an epoch", spread([run["written"] for run in ours]),
                "", None, "0.1", median([run["written"] for run in ours]) <= 0.1)], runs


def measure(bench):
    rows, figures = [], {}
    for name, part in (("first_reads", first_reads), ("shuffled", shuffled), ("larger_than_cache", larger_than_cache)):
        some, figures[name] = part(bench)
        rows += some
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
