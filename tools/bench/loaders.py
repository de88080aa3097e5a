#!/usr/bin/env python3
"""Loaders: WebDataset, MDS, Parquet and LMDB sets of 200 MB through the frameworks' own loaders, two workers: the cold and
the warm epoch of the mount beside the local copy's, read from disk and hot. Needs: tools/setup loaders."""

import json
import shutil
import subprocess
import sys

import support
from support import Row, drop_page_cache, in_turns, median, spread

LOADERS = ("webdataset", "mds", "parquet", "lmdb")
JOB = support.REPOSITORY / "tools" / "bench" / "loader_job.py"
PYTHON = support.REPOSITORY / "build" / "loaders" / "bin" / "python"


def job(*arguments):
    done = subprocess.run([PYTHON, JOB, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


def epoch(name, folder):
    result = job("epoch", name, folder)
    return {**result, "samples_per_s": result["samples"] / result["seconds"]}


def measure_one(bench, name):
    local = bench.folder / name
    bench.progress(f"{name}: make it")
    job("make", name, local, 25 if bench.quick else 200)
    with bench.store() as store:
        for path in sorted(local.iterdir()):
            store.put_file(f"{name}/{path.name}", path)

        def from_disk():
            drop_page_cache()
            return epoch(name, local)

        def cold(mounting):
            with mounting() as mount:
                drop_page_cache()
                return epoch(name, mount.path)

        turns = max(1, min(3, bench.turns))
        bench.progress(f"{name}: cold epochs")
        mounts = bench.systems(store, f"{name}/")
        colds = in_turns(turns, {"local": from_disk, "shardfs": lambda: cold(mounts["shardfs"])})
        bench.progress(f"{name}: warm epochs")
        with mounts["shardfs"]() as mount:
            epoch(name, mount.path)
            before = store.stats().gets
            warms = in_turns(turns, {"local": lambda: epoch(name, local), "shardfs": lambda: epoch(name, mount.path)})
            gets = store.stats().gets - before
        peers = {}
        for system, mounting in mounts.items():
            if system == "shardfs":
                continue
            with mounting() as mount:
                peers[system] = [epoch(name, mount.path), epoch(name, mount.path)]
    shutil.rmtree(local)
    everything = [run for runs in (*colds.values(), *warms.values(), *peers.values()) for run in runs]
    assert len({(run["samples"], run["checksum"]) for run in everything}) == 1, f"{name}: the samples differ"

    def row(what, runs, target, which):
        ours, theirs = ([run["samples_per_s"] for run in runs[system]] for system in ("shardfs", "local"))
        ratio = median(ours) / median(theirs)
        beside = "".join(f", {runs[which]['samples_per_s']:,.0f} {system}" for system, runs in peers.items())
        return Row(f"{name}, {what}, samples/s", spread(ours), f"{spread(theirs)} local copy{beside}", ratio, str(target),
                   ratio >= target)

    rows = [row("cold epoch beside the local copy from disk", colds, 0.8, 0), row("warm epoch", warms, 0.95, 1)]
    return rows, {"cold": colds, "warm": warms, "warm_gets": gets, "peers": peers}


def measure(bench):
    if not PYTHON.exists():
        sys.exit(f"there is no {PYTHON}: run tools/setup loaders")
    rows, figures = [], {}
    for name in LOADERS:
        some, figures[name] = measure_one(bench, name)
        rows += some
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
