#!/usr/bin/env python3
"""Listing: `ls -l` of a prefix with 20,000 objects: what it asks the store, and how long it takes.

Beside it: the pages one after the other, each 50 ms, and `ls -l` of a local folder with as many files.
"""

import subprocess
import time

import support
from support import Row, in_turns, median, spread

OBJECTS = 20000
PAGE = 1000  # keys, as S3's


def list_long(folder):
    """Seconds of `ls -l`, and how many names there were."""
    start = time.perf_counter()
    done = subprocess.run(["ls", "-l", folder], check=True, capture_output=True)
    return time.perf_counter() - start, done.stdout.count(b"\n") - 1


def measure(bench):
    objects = OBJECTS // (10 if bench.quick else 1)
    local = bench.folder / "many"
    local.mkdir()
    for i in range(objects):
        (local / f"sample-{i:06d}.jpg").touch()
    with bench.store() as store:
        store.put_many({f"many/sample-{i:06d}.jpg": b"x" for i in range(objects)})

        def cold():
            with bench.mount(store) as mount:
                store.reset()
                seconds, names = list_long(mount.path / "many")
                stats = store.stats()
                again, _ = list_long(mount.path / "many")
                return {"seconds": seconds, "again_s": again, "names": names, "lists": stats.lists,
                        "heads": stats.heads, "gets": stats.gets, "lists_again": store.stats().lists - stats.lists}

        bench.progress(f"ls -l of {objects} objects")
        runs = in_turns(bench.turns, {"shardfs": cold, "native": lambda: {"seconds": list_long(local)[0]}})
    ours = runs["shardfs"]
    assert all(run["names"] == objects for run in ours), "names are missing"
    lists, heads = (max(run[field] for run in ours) for field in ("lists", "heads"))
    seconds = [run["seconds"] for run in ours]
    in_order = -(-objects // PAGE) * support.LIST_MS / 1e3
    most = -(-objects // PAGE) + 8
    rows = [Row(f"`ls -l` of {objects:,}, s", spread(seconds), f"{in_order:.2f} its pages one after the other",
                median(seconds) / in_order),
            Row("the same again, s", spread([run["again_s"] for run in ours]),
                f"{spread([run['seconds'] for run in runs['native']])} local folder",
                median([run["again_s"] for run in ours]) / median([run["seconds"] for run in runs["native"]])),
            Row("its list requests", str(lists), f"{most - 8} pages", None, f"at most {most}", lists <= most),
            Row("its HEADs", str(heads), "", None, "0", heads == 0)]
    return rows, runs


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
