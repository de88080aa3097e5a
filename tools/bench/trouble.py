#!/usr/bin/env python3
"""Trouble: a store of which one answer in a hundred is two seconds late; a store that refuses more than eight requests at
once; and many readers with little memory."""

import os
import pathlib

import support
from support import Row, in_processes, in_turns, median, read_all_of, read_whole, seconds_of, spread

SHARD = 128 << 20


def mb_per_s(mount, paths, readers=1):
    total = [0]

    def job():
        if readers == 1:
            total[0] = read_all_of(paths)
        else:
            total[0] = sum(in_processes(readers, lambda j: read_all_of(paths[j::readers])))

    return seconds_of(job), total[0]


def late_answers(bench):
    size = SHARD // (8 if bench.quick else 1)
    shards = 16  # of 32 parts each
    names = [f"shard-{i:05d}.tar" for i in range(shards)]

    def run(late):
        with bench.store() as store:
            for seed, name in enumerate(names):
                store.put_generated(f"shards/{name}", size, seed=seed)
            if late:
                store.fault("delay", match={"kind": "get"}, delay_ms=2000, probability=0.01, seed=11, times=-1)
            with bench.mount(store, "shards/", "--cache-size", "0") as mount:
                seconds, total = mb_per_s(mount, [mount.path / name for name in names])
                return {"mb_per_s": total / seconds / 1e6, "gets": store.stats().gets,
                        "fetched": store.stats().body_bytes / total}

    bench.progress("1 % of the answers 2 s late")
    runs = in_turns(max(1, min(3, bench.turns)), {"without": lambda: run(False), "late": lambda: run(True)})
    with_, without = ([r["mb_per_s"] for r in runs[name]] for name in ("late", "without"))
    ratio = median(with_) / median(without)
    return [Row("1 % of the answers 2 s late, cold, MB/s", spread(with_), f"{spread(without)} without", ratio, "0.8",
                ratio >= 0.8)], runs


def refusals(bench):
    size = SHARD // (8 if bench.quick else 1)
    names = [f"shard-{i:05d}.tar" for i in range(4)]

    def run(limit, *options):
        with bench.store() as store:
            for seed, name in enumerate(names):
                store.put_generated(f"shards/{name}", size, seed=seed)
            if limit:
                store.fault("status", match={"kind": "get"}, concurrent_above=limit, times=-1)
            with bench.mount(store, "shards/", *options) as mount:
                seconds, total = mb_per_s(mount, [mount.path / name for name in names])
                stats = store.stats()
                return {"mb_per_s": total / seconds / 1e6, "refused": stats.statuses.get(503, 0), "gets": stats.gets}

    bench.progress("a store that refuses more than eight at once")
    jobs = {"adaptive": lambda: run(8)}
    jobs |= {str(fixed): lambda fixed=fixed: run(8, "--connections", str(fixed)) for fixed in (6, 7, 8)}
    runs = in_turns(max(1, min(3, bench.turns)), jobs)
    ours = median([r["mb_per_s"] for r in runs["adaptive"]])
    best = max((name for name in runs if name != "adaptive"), key=lambda n: median([r["mb_per_s"] for r in runs[n]]))
    fixed = [r["mb_per_s"] for r in runs[best]]
    refused = median([r["refused"] / r["gets"] for r in runs["adaptive"]])
    return [Row("a store that refuses more than 8 at once, cold, MB/s", spread([r["mb_per_s"] for r in runs["adaptive"]]),
                f"{spread(fixed)} with --connections {best}, the best fixed number", ours / median(fixed), "0.9",
                ours / median(fixed) >= 0.9),
            Row("the same: share of GETs refused, %", f"{100 * refused:.1f}")], runs


def memory(bench):
    size = (16 if bench.quick else 64) << 20
    readers, shards = 16, 64
    limit = 256 << 20
    with bench.store() as store:
        for seed in range(shards):
            store.put_generated(f"shards/shard-{seed:05d}.tar", size, seed=seed)
        bench.progress("64 shards open by 16 readers")
        with bench.mount(store, "shards/", "--memory-limit", str(limit)) as mount:
            paths = [mount.path / f"shard-{i:05d}.tar" for i in range(shards)]

            def reader(j):
                mine = [os.open(path, os.O_RDONLY) for path in paths[j::readers]]
                piece = bytearray(1 << 20)
                total = 0
                while counts := [os.readv(file, [piece]) for file in mine]:  # one piece of each in turn
                    total += sum(counts)
                    if not any(counts):
                        break
                return total

            total = sum(in_processes(readers, reader))
            assert total == shards * size
            status = pathlib.Path(f"/proc/{mount.process}/status").read_text()
            fields = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Vm", "Rss"))}
            peak = (int(fields["VmHWM"]) - int(fields["RssFile"])) / 1024
    return [Row("64 shards open by 16 readers: daemon's peak memory without file pages, MiB", f"{peak:.0f}",
                f"{limit >> 20} limit", None, "320 MiB", peak <= 320)], fields


def measure(bench):
    rows, figures = [], {}
    for name, part in (("late_answers", late_answers), ("refusals", refusals), ("memory", memory)):
        some, figures[name] = part(bench)
        rows += some
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
