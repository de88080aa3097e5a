#!/usr/bin/env python3
"""Sparse: what is fetched when only a little is read, or when many read the same: 20 random reads of a cold shard, the
footer of a large object, eight processes on one cold shard."""

import os
import random
import time

import support
from support import Row, in_processes, in_turns, read_whole

SHARD = 128 << 20


def random_reads(path):
    """20 reads of 64 KiB, seeded; then the time that a read-ahead needs to show itself."""
    places = random.Random(3)
    file = os.open(path, os.O_RDONLY)
    for _ in range(20):
        os.pread(file, 65536, places.randrange(SHARD // 65536) * 65536)
    os.close(file)
    time.sleep(0.5)


def footer(path):
    """As pyarrow does it: the last 64 KiB, and no more."""
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    os.pread(file, 65536, size - 65536)
    os.close(file)
    time.sleep(0.5)


def measure(bench):
    with bench.store() as store:
        for seed, name in enumerate(("random.tar", "all.tar")):
            store.put_generated(f"shards/{name}", SHARD, seed=seed)
        store.put_generated("shards/large.parquet", 1 << 30, seed=9)

        def fetched(mounting, job):
            with mounting() as mount:
                os.listdir(mount.path)
                store.reset()
                start = time.perf_counter()
                job(mount.path)
                return {"MB": store.stats().body_bytes / 1e6, "gets": store.stats().gets,
                        "seconds": time.perf_counter() - start}

        jobs = {"20 random reads of 64 KiB of a cold shard": lambda path: random_reads(path / "random.tar"),
                "footer of a 1 GiB object": lambda path: footer(path / "large.parquet"),
                "8 processes, one cold shard": lambda path: in_processes(8, lambda _: read_whole(path / "all.tar"))}
        needed = {"20 random reads of 64 KiB of a cold shard": (20 * 65536 / 1e6, 3.0),
                  "footer of a 1 GiB object": (65536 / 1e6, 0.5),
                  "8 processes, one cold shard": (SHARD / 1e6, SHARD / 1e6 * 1.001)}
        rows, figures = [], {}
        for name, job in jobs.items():
            bench.progress(name)
            results = in_turns(1, {system: lambda mounting=mounting: fetched(mounting, job)
                                   for system, mounting in bench.systems(store, "shards/").items()})
            figures[name] = {system: result[0] for system, result in results.items()}
            least, most = needed[name]
            beside = [f"{least:.1f} needed"] + [f"{result['MB']:.3g} {system}" for system, result in
                                                figures[name].items() if system != "shardfs"]
            ours = figures[name]["shardfs"]["MB"]
            rows.append(Row(f"{name}, MB fetched", f"{ours:.2f}", ", ".join(beside), None, f"{most:.3g} MB",
                            ours <= most))
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
