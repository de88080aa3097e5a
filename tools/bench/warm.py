#!/usr/bin/env python3
"""Warm: what a job gets from a mount whose cache holds everything, beside the same job on local files, in turns.

The job is the demo's: a DataLoader with two workers over 5,000 JPEG samples in 8 shards of 64 MiB. Then 128 MiB shards
in reads of 1 MiB, with passthrough and without. All data lies in the kernel's page cache.
"""

import filecmp
import json
import shutil
import subprocess
import time

import support
from support import Row, in_turns, median, read_whole, spread

SHARDS = 4
LOADER = support.REPOSITORY / "tools" / "demo_loader"


def read_epoch(bench, folder):
    """One epoch in a process of its own: its record."""
    out = bench.folder / "epoch.json"
    subprocess.run([bench.python, LOADER / "read_epochs.py", "--path", folder, "--out", out], check=True,
                   stdout=subprocess.DEVNULL)
    record = json.loads(out.read_text())[0]
    return {**record, "samples_per_s": record["samples"] / record["wall_s"]}


def loader(bench):
    samples, size_bytes = (500, 52 << 20) if bench.quick else (5000, 512 << 20)
    local = bench.folder / "train"
    local.mkdir()
    bench.progress(f"make {samples} samples")
    subprocess.run([bench.python, LOADER / "make_dataset.py", "--out", local, "--samples", str(samples), "--bytes",
                    str(size_bytes)], check=True, stdout=subprocess.DEVNULL)
    with bench.store() as store:
        for shard in sorted(local.iterdir()):
            store.put_file(f"train/{shard.name}", shard)
        with bench.mount(store, "train/") as mount:
            bench.progress("cold epoch")
            cold = read_epoch(bench, mount.path)
            after_cold = store.stats()
            bench.progress(f"{bench.turns} warm epochs in turns with the local copy's")
            read_epoch(bench, local)
            epochs = in_turns(bench.turns, {"local": lambda: read_epoch(bench, local),
                                            "shardfs": lambda: read_epoch(bench, mount.path)})
            warm_gets = store.stats().gets - after_cold.gets
            passthrough, reason = mount.passthrough()
    checksums = {record["checksum"] for records in epochs.values() for record in records} | {cold["checksum"]}
    assert len(checksums) == 1, "the samples differ"
    rates = {name: [record["samples_per_s"] for record in records] for name, records in epochs.items()}
    ratio = median(rates["shardfs"]) / median(rates["local"])
    rows = [Row("warm epoch, samples/s", spread(rates["shardfs"]), f"{spread(rates['local'])} local copy", ratio,
                "0.95", ratio >= 0.95),
            Row("warm epochs, GETs", str(warm_gets), "", None, "0", warm_gets == 0),
            Row("cold epoch of the same job, samples/s", f"{cold['samples_per_s']:,.0f}",
                f"{spread(rates['local'])} local copy, warm", cold["samples_per_s"] / median(rates["local"])),
            Row("cold epoch, fetched ÷ size", f"{after_cold.body_bytes / cold['bytes']:.3f}", "", None, "1.05",
                after_cold.body_bytes <= 1.05 * cold["bytes"])]
    return rows, {"passthrough": passthrough, "passthrough_reason": reason, "cold": cold,
                  "cold_gets": after_cold.gets, "cold_fetched_bytes": after_cold.body_bytes, "warm_gets": warm_gets,
                  "epochs": epochs}


def sequential(bench, passthrough):
    """MB/s of whole shards in reads of 1 MiB: mount and native file, in turns."""
    size = (13 if bench.quick else 128) << 20
    names = [f"shard-{i:06d}.tar" for i in range(SHARDS)]
    local = bench.folder / f"native-{passthrough}"
    local.mkdir()
    with bench.store() as store:
        for seed, name in enumerate(names):
            store.put_generated(f"shards/{name}", size, seed=seed)
        with bench.mount(store, "shards/", "--passthrough", passthrough) as mount:
            for name in names:
                shutil.copyfile(mount.path / name, local / name)

            def rate(folder):
                start = time.perf_counter()
                total = sum(read_whole(folder / name) for name in names)
                return total / (time.perf_counter() - start) / 1e6

            for name in names:
                assert filecmp.cmp(mount.path / name, local / name, shallow=False), f"{name} differs"
            before = store.stats().gets
            rates = in_turns(4 * bench.turns, {"native": lambda: rate(local), "shardfs": lambda: rate(mount.path)})
            gets = store.stats().gets - before
            active, reason = mount.passthrough()
    shutil.rmtree(local)
    return rates, {"MB_per_s": rates, "gets": gets, "passthrough": active, "passthrough_reason": reason}


def measure(bench):
    rows, job = loader(bench)
    figures = {"loader": job}
    for passthrough in ("auto", "off"):
        bench.progress(f"reads of 1 MiB, passthrough {passthrough}")
        rates, figures[f"sequential_{passthrough}"] = sequential(bench, passthrough)
        active = figures[f"sequential_{passthrough}"]["passthrough"]
        ratio = median(rates["shardfs"]) / median(rates["native"])
        rows.append(Row(f"warm shard, 1 MiB reads, passthrough {'on' if active else 'off'}, MB/s",
                        spread(rates["shardfs"]), f"{spread(rates['native'])} native", ratio,
                        "0.85" if active else "", ratio >= 0.85 if active else None))
    return rows, figures


if __name__ == "__main__":
    support.main(__doc__.split("\n\n")[0], measure)
